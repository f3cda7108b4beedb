// Opens a file as open() does. A FIFO makes open() wait for its other end: here a signal ends the
// wait.
#pragma once

#include <sys/types.h>

#include <string>

namespace skald {

// Returns a descriptor with O_CLOEXEC, or -1 with errno. Throws if the program is interrupted.
int open_waiting(const std::string& path, int flags, mode_t mode = 0);

}  // namespace skald
