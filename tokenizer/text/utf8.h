// UTF-8 by its strict definition: no surrogates, no overlong forms, nothing above U+10FFFF.
// SentencePiece uses the same definition.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace skald {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// The length of the first character of s; 0 if s is empty or does not begin with a valid character.
size_t utf8_length(std::string_view s);

// True if s is a single character whose last bytes are missing; a stream holds such bytes back.
bool utf8_incomplete(std::string_view s);

bool utf8_valid(std::string_view s);

// The number of bytes of s that one U+FFFD replaces if a broken character counts as a whole: the
// longest prefix of a valid character, at least one byte. s is not empty and does not begin with a
// valid character.
size_t utf8_broken_length(std::string_view s);

// Returns `text` with each invalid byte replaced by U+FFFD.
std::string utf8_repaired(std::string_view text);

char32_t utf8_code_point(std::string_view character);  // `character` is one whole character
void utf8_append(char32_t code_point, std::string& text);

bool is_white_space(char32_t c);  // Unicode's White_Space

}  // namespace skald
