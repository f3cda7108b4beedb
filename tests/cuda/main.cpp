// The GPU tests' main. Without a GPU the exit code is 77, which CTest shows as skipped. "--without
// graphs,dependent,clusters" (any of the three words) before Catch's arguments switches CUDA
// graphs, dependent launches or clusters off, to find out which of them a failure needs.
#define CATCH_CONFIG_RUNNER
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cuda/cuda.h"
#include "tests/cuda/kernels/switches.h"

int main(int argc, char** argv) {
  // Two ranks may share one GPU here. To load a kernel, CUDA may wait until running kernels end. A
  // rank that loads one would then wait for the other rank's kernel, which waits for this rank.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  const skald::cuda::Devices found = skald::cuda::list_devices();
  if (found.devices.empty()) {
    std::printf("skipped: %s\n", found.problem.c_str());
    return 77;
  }
  if (argc > 2 && std::string_view(argv[1]) == "--without") {
    const std::string_view without = argv[2];
    const auto has = [&](std::string_view word) { return without.find(word) != without.npos; };
    skald::test::switches() = {!has("graphs"), !has("dependent"), !has("clusters")};
    argv[2] = argv[0];
    argc -= 2;
    argv += 2;
  }
  return Catch::Session().run(argc, argv);
}
