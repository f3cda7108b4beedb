// How byte-level BPE writes bytes in its files: each as one printable character. Bytes that have a
// printable character in Latin-1 keep it, the 68 others are U+0100 and up: " the" is "Ġthe".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace skald {

char32_t byte_character(uint8_t byte);
int byte_of_character(char32_t character);  // -1: not in the alphabet

// Appends the bytes that `piece` writes; false (and nothing appended) where it has a character that
// is not in the alphabet, or is no UTF-8.
bool append_bytes_of(std::string_view piece, std::string& bytes);

}  // namespace skald
