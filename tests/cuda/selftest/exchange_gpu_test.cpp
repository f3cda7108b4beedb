// The exchange between GPUs; one GPU stands in for two or three where the machine has no others.
#include "cuda/cuda.h"
#include "engine/selftest/report.h"
#include "tests/catch.h"

namespace skald::test {

TEST_CASE("sums and joined columns of several ranks are exact") {
  const int gpus = cuda::look_at_system().devices;
  for (const int ranks : {2, 3}) {
    // The blocks of three ranks' largest kernels would not all fit on one GPU, and they wait for
    // one another.
    if (ranks > 2 && gpus < 3) continue;
    std::vector<int> devices;
    for (int rank = 0; rank < ranks; ++rank) devices.push_back(gpus >= ranks ? rank : 0);
    selftest::Report report;
    cuda::test_exchange(devices, report);
    CHECK(report.cases() >= (devices[0] == devices[1] ? 14 : 20));
    for (const std::string& failure : report.failures()) FAIL_CHECK(failure);
  }
}

TEST_CASE("the exchange of two ranks is measured") {
  const int second = cuda::look_at_system().devices > 1 ? 1 : 0;
  const std::vector<int> devices = {0, second};
  const cuda::ExchangeSpeeds speeds = cuda::measure_exchange(devices);
  CHECK(speeds.seconds_few > 0);
  CHECK(speeds.bytes_per_second > 0);
}

}  // namespace skald::test
