// What this process may use of the machine: cores and memory, with the limits of a container or of
// a batch system counted in.
#pragma once

#include <filesystem>

#include "engine/memory/memory_plan.h"

namespace skald::cpu {

int available_threads();

// `total` is the least of the machine's memory, the limits of the cgroups that the process is in,
// and of its address space (ulimit -v). `free` is all of it but for what every system needs: memory
// that others use now counts as free, since most of that is a cache that gives way.
DeviceMemorySize machine_memory();

// The least memory.max of the cgroup `path` below `root` and of those above it; 0: no limit.
int64_t cgroup_memory_limit(const std::filesystem::path& root, const std::filesystem::path& path);

}  // namespace skald::cpu
