// Text from files and from stdin.
#pragma once

#include <string>
#include <string_view>

namespace skald {

// A whole file, or stdin for "-".
std::string read_bytes(const std::string& file);
// Drops one newline at the end, since editors add one.
std::string read_text(const std::string& file);

// Replaces \n \r \t \\ \" \' \0 and \xHH; anything else after a backslash is an Error.
std::string unescape(std::string_view text);

// Replaces control characters, which could take over a terminal, and bytes that are no UTF-8: ESC
// becomes \x1b. Newlines and tabs stay.
std::string printable_text(std::string_view text);

}  // namespace skald
