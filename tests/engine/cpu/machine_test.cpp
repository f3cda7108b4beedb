#include "engine/cpu/machine.h"

#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace skald::test {

TEST_CASE("the memory limit is the lowest of a control group and its parents") {
  TempFolder folder;
  namespace fs = std::filesystem;
  const fs::path root = folder.path() / "cgroup";
  fs::create_directories(root / "job" / "step");
  CHECK(cpu::cgroup_memory_limit(root, "job/step") == 0);
  folder.write("cgroup/job/step/memory.max", "max\n");
  CHECK(cpu::cgroup_memory_limit(root, "job/step") == 0);
  folder.write("cgroup/job/memory.max", "8589934592\n");
  CHECK(cpu::cgroup_memory_limit(root, "job/step") == 8589934592);
  folder.write("cgroup/job/step/memory.max", "1048576\n");
  CHECK(cpu::cgroup_memory_limit(root, "job/step") == 1048576);
  CHECK(cpu::cgroup_memory_limit(root, "job") == 8589934592);
  // In a container the process's own group is the root of the mounted tree.
  folder.write("cgroup/memory.max", "4096\n");
  CHECK(cpu::cgroup_memory_limit(root, "") == 4096);
  CHECK(cpu::cgroup_memory_limit(root, "not/there") == 4096);
}

TEST_CASE("this machine has memory and at least one thread") {
  const DeviceMemorySize memory = cpu::machine_memory();
  CHECK(memory.total > 0);
  CHECK(memory.free > 0);
  CHECK(memory.free <= memory.total);
  CHECK(cpu::available_threads() >= 1);
}

TEST_CASE("memory that other programs use cannot be locked") {
  TempFolder folder;
  const int64_t free = cpu::machine_memory().free;
  const auto lockable = [&](const std::string& meminfo) {
    return cpu::lockable_memory(folder.write("meminfo", meminfo));
  };
  CHECK(lockable("MemTotal:  24601234 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n") == 2048 << 10);
  CHECK(lockable("MemAvailable: 999999999999 kB\n") == free);
  CHECK(lockable("MemTotal: 5 kB\n") == free);
  CHECK(lockable("MemAvailable: many\n") == free);
  CHECK(cpu::lockable_memory(folder.path() / "missing") == free);
  CHECK(cpu::lockable_memory() > 0);
}

}  // namespace skald::test
