// Text from a file or a user, made fit for a terminal and for a one-line message: control
// characters (which could move the cursor or set the title) and invalid UTF-8 become \x1b, long
// text is cut.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace skald {

// At most about max_bytes of `text`, cut between characters; "..." tells that something is missing.
std::string printable(std::string_view text, size_t max_bytes = 200);

}  // namespace skald
