// The one loop that writes to a file descriptor, for files, pipes and terminals.
#pragma once

#include <cstdint>
#include <string_view>

namespace skald {

// Writes all bytes: at `offset` of a file, or where the descriptor stands if `offset` is negative.
// Waits where somebody made the descriptor non-blocking. Returns 0, or the errno of the failure;
// how many bytes were written before a failure is not known.
int write_all(int fd, std::string_view bytes, int64_t offset = -1);

}  // namespace skald
