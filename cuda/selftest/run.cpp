// Walks the list of cases and runs each on the kernels that support it.
#include "cuda/selftest/run.h"

#include <algorithm>
#include <deque>
#include <future>
#include <vector>

#include "cuda/cuda.h"

namespace skald::cuda {
namespace {

// Calls test(case, data) for one case after the other, while other threads make the data of the
// next cases: the formula in double precision takes far longer than a kernel.
template <class Case, class Test>
void with_data(const std::vector<Case>& cases, uint64_t& seed, const Test& test) {
  constexpr size_t kAhead = 12;
  using Data = decltype(make_data(cases.front(), seed));
  std::deque<std::future<Data>> ahead;
  size_t begun = 0;
  for (const Case& c : cases) {
    for (; begun < cases.size() && ahead.size() < kAhead; ++begun) {
      ahead.push_back(std::async(std::launch::async, [&next = cases[begun], own = ++seed] {
        return make_data(next, own);
      }));
    }
    test(c, ahead.front().get());
    ahead.pop_front();
  }
}

}  // namespace

void self_test(const selftest::Request& request, int device, int compute_capability,
               selftest::Report& report) {
  SKALD_CUDA(cudaSetDevice(device));
  cudaDeviceProp properties;
  SKALD_CUDA(cudaGetDeviceProperties(&properties, device));
  const int own = properties.major * 10 + properties.minor;
  StreamOwner stream;
  GemmCublas gemm;
  const TestGpu test = {{compute_capability > 0 ? std::min(compute_capability, own) : own,
                         properties.multiProcessorCount},
                        stream,
                        &gemm};
  TestBuffers buffers(stream, request.extent == selftest::Extent::Small);
  uint64_t seed = request.seed << 32;
  const auto walk = [&](const auto& cases, const auto& run_case) {
    with_data(cases, seed,
              [&](const auto& c, const auto& data) { run_case(c, data, test, buffers, report); });
  };
  if (request.pointwise) walk(selftest::pointwise_cases(request.extent), test_pointwise);
  if (request.products) {
    walk(selftest::product_cases(request.extent), test_product);
    walk(selftest::device_block_cases(request.extent), test_product);
  }
  if (request.attention) walk(selftest::attention_cases(request.extent), test_attention);
  if (request.experts) walk(selftest::experts_cases(request.extent), test_experts);
  if (request.states) {
    walk(selftest::delta_cases(request.extent), test_delta);
    walk(selftest::space_cases(request.extent), test_space);
  }
  if (request.scores) walk(selftest::score_cases(request.extent), test_scores);
}

}  // namespace skald::cuda
