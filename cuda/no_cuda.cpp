// Replaces the CUDA backend in a build without a CUDA toolkit.
#include "cuda/cuda.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

constexpr const char* kProblem =
    "this skald was built without CUDA; install the CUDA toolkit and build again";

}  // namespace

bool built() { return false; }

System look_at_system() {
  System system;
  system.problem = kProblem;
  return system;
}

DeviceInfo look_at_device(int) { fail(Exit::Failed, kProblem); }

DeviceInfo describe_device(int) { fail(Exit::Failed, kProblem); }

Devices list_devices() { return {{}, kProblem}; }

std::unique_ptr<Executor> make_executor(const Model&, const RunOptions&, int, const Switches&) {
  fail(Exit::Failed, kProblem);
}

std::unique_ptr<Executor> make_group(const Model&, const RunOptions&, std::span<const int>,
                                     const Switches&) {
  fail(Exit::Failed, kProblem);
}

void self_test(const selftest::Request&, int, int, selftest::Report&) {
  fail(Exit::Failed, kProblem);
}

void test_exchange(std::span<const int>, selftest::Report&) { fail(Exit::Failed, kProblem); }

ExchangeSpeeds measure_exchange(std::span<const int>) { fail(Exit::Failed, kProblem); }

double measure_read_bandwidth(int) { fail(Exit::Failed, kProblem); }

Speeds measure_speeds(int) { fail(Exit::Failed, kProblem); }

}  // namespace skald::cuda
