#include "engine/cpu/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace skald::cpu {
namespace {

const std::filesystem::path kCgroups = "/sys/fs/cgroup";

// The cgroup of this process, relative to kCgroups: the line "0::/path".
std::filesystem::path own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

// Calls fn(folder, limit) for the cgroup `path` below `root` and for its ancestors, if they have a
// limit.
template <class Fn>
void for_each_limit(const std::filesystem::path& root, const std::filesystem::path& path,
                    const Fn& fn) {
  std::filesystem::path folder = root;
  const auto look = [&] {
    std::ifstream file(folder / "memory.max");
    int64_t limit = 0;
    if (file >> limit) fn(folder, limit);  // else the file says "max"
  };
  look();
  for (const std::filesystem::path& part : path) {
    folder /= part;
    look();
  }
}

}  // namespace

int available_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  int threads = std::max(1, CPU_COUNT(&allowed));
  // A container may have less CPU time than cores. The file holds "quota period" or "max period".
  std::ifstream limit(kCgroups / "cpu.max");
  double quota = 0, period = 0;
  if (limit >> quota >> period && quota > 0 && period > 0) {
    threads = std::min(threads, static_cast<int>(std::ceil(quota / period)));
  }
  return threads;
}

int64_t cgroup_memory_limit(const std::filesystem::path& root, const std::filesystem::path& path) {
  int64_t least = 0;
  for_each_limit(root, path, [&](const std::filesystem::path&, int64_t limit) {
    if (limit > 0) least = least > 0 ? std::min(least, limit) : limit;
  });
  return least;
}

int64_t cgroup_memory_left(const std::filesystem::path& root, const std::filesystem::path& path) {
  int64_t least = INT64_MAX;
  for_each_limit(root, path, [&](const std::filesystem::path& folder, int64_t limit) {
    std::ifstream stat(folder / "memory.stat");
    int64_t bytes = 0;
    for (std::string name; stat >> name >> bytes;) {
      if (name == "anon" || name == "shmem") limit -= bytes;  // the rest can be dropped
    }
    least = std::min(least, std::max<int64_t>(limit, 0));
  });
  return least;
}

int64_t lockable_memory(const std::filesystem::path& meminfo) {
  const int64_t free = std::min(machine_memory().free, cgroup_memory_left(kCgroups, own_cgroup()));
  std::ifstream file(meminfo);
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kName = "MemAvailable:";  // "MemAvailable:   24019284 kB"
    int64_t kilobytes = 0;
    if (line.starts_with(kName) && std::istringstream(line.substr(kName.size())) >> kilobytes) {
      return std::min(free, kilobytes << 10);
    }
  }
  return free;
}

DeviceMemorySize machine_memory() {
  int64_t total = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const int64_t group = cgroup_memory_limit(kCgroups, own_cgroup());
  if (group > 0) total = std::min(total, group);
  rlimit space;
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    total = std::min(total, static_cast<int64_t>(std::min<rlim_t>(space.rlim_cur, INT64_MAX)));
  }
  // A sixteenth stays for the system, and for this program's memory besides its buffers
  constexpr int64_t kShareOfOthers = 16;
  return {total, total - total / kShareOfOthers};
}

}  // namespace skald::cpu
