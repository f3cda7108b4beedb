// Copies results to the host's memory: some 200 bytes per result, over the link.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/sample/sample.h"

namespace skald::cuda {
namespace {

// One warp per result. A result's first word is its status, which is written last.
__global__ void copy_results(const SampleResult* results, SampleResult* host) {
  constexpr int kWords = sizeof(SampleResult) / sizeof(uint32_t);
  static_assert(sizeof(SampleResult) % sizeof(uint32_t) == 0);
  const auto* from = reinterpret_cast<const uint32_t*>(results + blockIdx.x);
  auto* to = reinterpret_cast<volatile uint32_t*>(host + blockIdx.x);
  for (int i = 1 + static_cast<int>(threadIdx.x); i < kWords; i += 32) to[i] = from[i];
  __threadfence_system();
  __syncwarp();
  if (threadIdx.x == 0) to[0] = from[0];
}

}  // namespace

void launch_copy_results(const SampleResult* results, SampleResult* host, int count,
                         Stream stream) {
  launch_kernel(copy_results, {dim3(count), 32}, stream, results, host);
}

}  // namespace skald::cuda
