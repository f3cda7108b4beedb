// Converts ranges of code points to ranges of UTF-8 bytes.
#pragma once

#include <array>
#include <vector>

#include "engine/grammar/rules.h"

namespace skald::grammar {

struct ByteRange {
  uint8_t first, last;
  bool operator==(const ByteRange&) const = default;
};

// One to four bytes, each from a range. Matches the UTF-8 of some characters and nothing else.
struct Utf8Range {
  int length = 0;
  std::array<ByteRange, 4> bytes = {};
};

std::vector<Utf8Range> utf8_ranges(std::span<const CharRange> normalized_chars);

// The bytes of a character of valid UTF-8 that begins with `lead`.
constexpr int utf8_length(uint8_t lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// False for the bytes of valid UTF-8 that go on with a character.
constexpr bool utf8_begins(uint8_t byte) { return (byte & 0xC0) != 0x80; }

int encode_utf8(char32_t c, uint8_t bytes[4]);  // returns the number of bytes
void append_utf8(char32_t c, std::string& text);

// Reads the code point at text[at] and moves `at` past it. Returns false if the bytes are not valid
// UTF-8.
bool decode_utf8(std::string_view text, size_t& at, char32_t& c);

}  // namespace skald::grammar
