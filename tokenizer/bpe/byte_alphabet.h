// The byte alphabet of byte-level BPE: each byte is written as one printable character. Bytes that
// are printable in Latin-1 stand for themselves; the other 68 are U+0100 and following. " the" is
// written "Ġthe".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace skald {

char32_t byte_character(uint8_t byte);
int byte_of_character(char32_t character);  // -1: not in the alphabet

// Appends the bytes that `piece` stands for. Returns false and appends nothing if `piece` is not
// valid UTF-8 or contains a character outside the alphabet.
bool append_bytes_of(std::string_view piece, std::string& bytes);

}  // namespace skald
