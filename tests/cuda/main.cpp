// Without a GPU there is nothing to test: exit code 77, which CTest shows as skipped.
#define CATCH_CONFIG_RUNNER
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cstdio>

#include "cuda/cuda.h"

int main(int argc, char** argv) {
  const skald::cuda::Devices found = skald::cuda::list_devices();
  if (found.devices.empty()) {
    std::printf("skipped: %s\n", found.problem.c_str());
    return 77;
  }
  return Catch::Session().run(argc, argv);
}
