// Which bytes are UTF-8: the strict definition (no surrogates, no overlong forms, nothing past
// U+10FFFF), which is also the one that SentencePiece applies.
#pragma once

#include <cstddef>
#include <string_view>

namespace skald {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// The length of the character that s begins with, or 0 where s begins with none (or is empty).
size_t utf8_length(std::string_view s);

// Whether s is one character that lacks its last bytes: what a stream holds back.
bool utf8_incomplete(std::string_view s);

bool utf8_valid(std::string_view s);

}  // namespace skald
