#include "cuda/selftest/run.h"

#include <algorithm>

#include "cuda/cuda.h"

namespace skald::cuda {

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
  if (request.pointwise) {
    for (const auto& c : selftest::pointwise_cases(request.extent)) {
      test_pointwise(c, ++seed, test, buffers, report);
    }
  }
  if (request.products) {
    for (const auto& c : selftest::product_cases(request.extent)) {
      test_product(c, ++seed, test, buffers, report);
    }
    for (const auto& c : selftest::device_block_cases(request.extent)) {
      test_product(c, ++seed, test, buffers, report);
    }
  }
  if (request.attention) {
    for (const auto& c : selftest::attention_cases(request.extent)) {
      test_attention(c, ++seed, test, buffers, report);
    }
  }
  if (request.experts) {
    for (const auto& c : selftest::experts_cases(request.extent)) {
      test_experts(c, ++seed, test, buffers, report);
    }
  }
  if (request.scores) {
    for (const auto& c : selftest::score_cases(request.extent)) {
      test_scores(c, ++seed, test, buffers, report);
    }
  }
}

}  // namespace skald::cuda
