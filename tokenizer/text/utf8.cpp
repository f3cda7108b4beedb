#include "tokenizer/text/utf8.h"

#include <cstdint>

namespace skald {
namespace {

// What the first byte of a character determines: the length of the character and the range of the
// second byte. Narrower ranges exclude overlong forms (E0, F0), surrogates (ED) and code points
// above U+10FFFF (F4).
struct Lead {
  size_t length;
  uint8_t second_low, second_high;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0) {
    return {3, uint8_t(byte == 0xE0 ? 0xA0 : 0x80), uint8_t(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte < 0xF5) {
    return {4, uint8_t(byte == 0xF0 ? 0x90 : 0x80), uint8_t(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0, 0, 0};
}

// True if all bytes after the first, up to the end of the character or of s, are in range.
bool rest_fits(std::string_view s, const Lead& lead) {
  for (size_t i = 1; i < s.size() && i < lead.length; ++i) {
    const uint8_t byte = static_cast<uint8_t>(s[i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return false;
  }
  return true;
}

}  // namespace

size_t utf8_length(std::string_view s) {
  if (s.empty()) return 0;
  const Lead lead = lead_of(static_cast<uint8_t>(s[0]));
  return s.size() >= lead.length && rest_fits(s, lead) ? lead.length : 0;
}

bool utf8_incomplete(std::string_view s) {
  if (s.empty()) return false;
  const Lead lead = lead_of(static_cast<uint8_t>(s[0]));
  return s.size() < lead.length && rest_fits(s, lead);
}

size_t utf8_broken_length(std::string_view s) {
  size_t length = 1;
  while (length < s.size() && utf8_incomplete(s.substr(0, length + 1))) ++length;
  return length;
}

std::string utf8_repaired(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    out += length > 0 ? text.substr(0, length) : kReplacementCharacter;
    text.remove_prefix(length > 0 ? length : 1);
  }
  return out;
}

char32_t utf8_code_point(std::string_view c) {
  const auto bits = [&](size_t i) { return static_cast<uint8_t>(c[i]) & 0x3Fu; };
  const uint8_t lead = static_cast<uint8_t>(c[0]);
  switch (c.size()) {
    case 1:
      return lead;
    case 2:
      return (lead & 0x1Fu) << 6 | bits(1);
    case 3:
      return (lead & 0x0Fu) << 12 | bits(1) << 6 | bits(2);
    default:
      return (lead & 0x07u) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3);
  }
}

void utf8_append(char32_t code, std::string& text) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

bool utf8_valid(std::string_view s) {
  while (!s.empty()) {
    const size_t length = utf8_length(s);
    if (length == 0) return false;
    s.remove_prefix(length);
  }
  return true;
}

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace skald
