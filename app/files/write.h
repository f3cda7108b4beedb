// The one loop that writes to a file descriptor, for files, pipes and terminals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace skald {

// Writes all bytes: at `offset` of a file, or where the descriptor stands if `offset` is negative.
// Waits where somebody made the descriptor non-blocking. Returns 0, or the errno of the failure;
// how many bytes were written before a failure is not known.
int write_all(int fd, std::string_view bytes, int64_t offset = -1);

// Brings the name of a file to the disk: without it, a new or renamed file may be gone after the
// machine went down, or have its old name. Some file systems cannot; the file is whole all the
// same.
void sync_folder_of(const std::filesystem::path& file);

}  // namespace skald
