// The cores and memory that this process may use, including limits of a container or batch system.
#pragma once

#include <filesystem>

#include "engine/memory/memory_plan.h"

namespace skald::cpu {

int available_threads();

// `total` is the smallest of the machine's memory, the limits of the process's cgroups, and its
// address space (ulimit -v). `free` is `total` minus a reserve for the system. Memory in use by
// other programs counts as free, because most of it is cache that the system can drop.
DeviceMemorySize machine_memory();

// The part of machine_memory().free that is not in use, if the cgroup and the file `meminfo` tell.
// Memory that this program locks cannot be taken from other programs.
int64_t lockable_memory(const std::filesystem::path& meminfo = "/proc/meminfo");

// Returns how many bytes the limits of the cgroup `path` below `root` and of its ancestors leave.
// Memory that the system can drop counts as free. INT64_MAX: no limit.
int64_t cgroup_memory_left(const std::filesystem::path& root, const std::filesystem::path& path);

// The smallest memory.max of the cgroup `path` below `root` and its ancestors; 0: no limit.
int64_t cgroup_memory_limit(const std::filesystem::path& root, const std::filesystem::path& path);

}  // namespace skald::cpu
