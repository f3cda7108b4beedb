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

TEST_CASE("a control group leaves its limit without the memory that cannot be dropped") {
  TempFolder folder;
  namespace fs = std::filesystem;
  const fs::path root = folder.path() / "cgroup";
  fs::create_directories(root / "job");
  CHECK(cpu::cgroup_memory_left(root, "job") == INT64_MAX);
  folder.write("cgroup/job/memory.max", "1000\n");
  CHECK(cpu::cgroup_memory_left(root, "job") == 1000);
  folder.write("cgroup/job/memory.stat", "anon 300\nfile 600\nshmem 100\n");
  CHECK(cpu::cgroup_memory_left(root, "job") == 600);
  folder.write("cgroup/memory.max", "max\n");
  CHECK(cpu::cgroup_memory_left(root, "job") == 600);
  folder.write("cgroup/memory.max", "500\n");
  CHECK(cpu::cgroup_memory_left(root, "job") == 500);
  folder.write("cgroup/job/memory.stat", "anon 5000\n");
  CHECK(cpu::cgroup_memory_left(root, "job") == 0);
}

TEST_CASE("memory that other programs use cannot be locked") {
  TempFolder folder;
  const int64_t free = cpu::lockable_memory(folder.path() / "missing");
  CHECK(free <= cpu::machine_memory().free);
  const auto lockable = [&](const std::string& meminfo) {
    return cpu::lockable_memory(folder.write("meminfo", meminfo));
  };
  CHECK(lockable("MemTotal:  24601234 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n") == 2048 << 10);
  CHECK(lockable("MemAvailable: 999999999999 kB\n") >= free / 2);
  CHECK(lockable("MemTotal: 5 kB\n") >= free / 2);
  CHECK(lockable("MemAvailable: many\n") >= free / 2);
  CHECK(cpu::lockable_memory() > 0);
}

}  // namespace skald::test
