// What CUDA says about GPUs, and their speeds.
#include <cstdio>

#include "cuda/cuda.h"
#include "tests/catch.h"

namespace skald::cuda {

TEST_CASE("every visible GPU is described, and one that does not exist is a problem, no throw") {
  const System system = look_at_system();
  CHECK(system.built);
  CHECK(system.driver_version >= system.runtime_version / 1000 * 1000);
  CHECK(!system.architectures.empty());
  CHECK(system.missing_library.empty());
  REQUIRE(system.devices > 0);
  const Devices found = list_devices();
  REQUIRE(static_cast<int>(found.devices.size()) == system.devices);
  for (const DeviceInfo& gpu : found.devices) {
    std::printf("GPU %d: %s, sm_%d, %lld of %lld MiB free %s\n", gpu.index, gpu.name.c_str(),
                gpu.compute_capability, static_cast<long long>(gpu.free_bytes >> 20),
                static_cast<long long>(gpu.total_bytes >> 20), gpu.problem.c_str());
    CHECK(!gpu.name.empty());
    CHECK(gpu.free_bytes <= gpu.total_bytes);
    CHECK(gpu.problem.empty() == (gpu.free_bytes > 0));
  }
  const DeviceInfo none = look_at_device(system.devices + 7);
  CHECK(!none.problem.empty());
  CHECK(none.error == "cudaErrorInvalidDevice");
}

TEST_CASE("a GPU reads its own memory faster than the host's") {
  const Speeds speeds = measure_speeds(0);
  std::printf("reads %.0f, copies %.0f, from host %.1f, to host %.1f GB/s\n", speeds.read / 1e9,
              speeds.copy / 1e9, speeds.from_host / 1e9, speeds.to_host / 1e9);
  CHECK(speeds.from_host > 1e9);
  CHECK(speeds.to_host > 1e9);
  CHECK(speeds.read > speeds.from_host);
  CHECK(speeds.copy > speeds.to_host);
}

}  // namespace skald::cuda
