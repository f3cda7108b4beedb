// Which bytes are UTF-8: the strict definition (no surrogates, no overlong forms, nothing past
// U+10FFFF), which is also the one that SentencePiece applies.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace skald {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// The length of the character that s begins with, or 0 where s begins with none (or is empty).
size_t utf8_length(std::string_view s);

// Whether s is one character that lacks its last bytes: what a stream holds back.
bool utf8_incomplete(std::string_view s);

bool utf8_valid(std::string_view s);

// How many bytes at the start of s (not empty, no character begins there) stand for one U+FFFD
// where a whole broken character does: the longest beginning of a character, at least one byte.
size_t utf8_broken_length(std::string_view s);

// text with each invalid byte replaced by U+FFFD.
std::string utf8_repaired(std::string_view text);

char32_t utf8_code_point(std::string_view character);  // one whole character
void utf8_append(char32_t code_point, std::string& text);

}  // namespace skald
