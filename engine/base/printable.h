// Makes text from a file or a user safe for a terminal and for a one-line message. Control
// characters (which could move the cursor or set the title) and invalid UTF-8 become \x1b and the
// like; long text is cut.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace skald {

// Returns `text`, cut between characters to about max_bytes. "..." marks a cut.
std::string printable(std::string_view text, size_t max_bytes = 200);

}  // namespace skald
