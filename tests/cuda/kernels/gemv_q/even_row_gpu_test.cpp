// A product of one quantized row with activations that are all equal. 32 activations just below a
// power of two have the largest sum that minimums can be multiplied by, and they lie at the end of
// the range of two digits.
#include <bit>
#include <cmath>
#include <vector>

#include "cuda/gpu/check.h"
#include "cuda/gpu/kernel_code.h"
#include "cuda/kernels/linear.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/random_tiles.h"
#include "tests/cuda/kernels/relative_error.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory;

struct Given {
  float activation;
  bool normed;  // a norm then makes it 1 or -1
};

TEST_CASE("a quantized row of equal activations is what the plain kernel gives", "[small]") {
  constexpr int64_t kOuts = 80, kIns = 512;
  cudaDeviceProp device = {};
  SKALD_CUDA(cudaGetDeviceProperties(&device, 0));
  const DType format = GENERATE(DType::Q4_0, DType::Q4_1, DType::Q5_1, DType::Q2_K, DType::Q3_K,
                                DType::Q4_K, DType::Q5_K, DType::Q6_K);
  const Given given =
      GENERATE(Given{0.99609375f, false}, Given{-0.99609375f, false},  // the last below 1 in bf16
               Given{1, false}, Given{-1, false}, Given{0.99999f, true}, Given{0.998f, true},
               Given{-0.998f, true}, Given{0.9961f, true});
  INFO(name(format) << ", activations of " << given.activation);
  std::mt19937 random(3);
  const DeviceMemory weight = random_tiles(format, kOuts, kIns, random);
  const float plain = given.normed ? std::copysign(1.0f, given.activation) : given.activation;
  const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(plain) >> 16);
  const DeviceMemory in = on_device(std::vector<uint16_t>(kIns, bits));
  const DeviceMemory normed_in = on_device(std::vector<float>(kIns, given.activation));
  const DeviceMemory norm_weight = on_device(std::vector<float>(kIns, 1.0f));
  const DeviceMemory ticket = on_device(std::vector<unsigned>(1));
  DeviceMemory out(kOuts * 4, "a test");

  cuda::LinearLaunch launch = {};
  launch.type = DType::BF16;
  launch.format = format;
  launch.weight = weight.as<void>();
  launch.outs = kOuts;
  launch.ins = kIns;
  launch.rows = 1;
  launch.in = in.as<void>();
  launch.out = out.as<void>();
  launch.out_stride = kOuts;
  launch.epilogue = cuda::Epilogue::Floats;
  launch.gemv.ticket = ticket.as<unsigned>();
  const auto results = [&] {
    std::vector<float> numbers(kOuts);
    SKALD_CUDA(cudaDeviceSynchronize());
    SKALD_CUDA(cudaMemcpy(numbers.data(), out.as<void>(), kOuts * 4, cudaMemcpyDeviceToHost));
    return numbers;
  };
  if (!(runs_on(cuda::KernelCode::Sm90a, device.major * 10 + device.minor) &&
        supports_gemv_q_sm90(launch)))
    return;
  launch_gemv_plain(launch, nullptr);
  const std::vector<float> expected = results();
  if (given.normed) {
    launch.in = normed_in.as<void>();
    launch.norm_weight = norm_weight.as<float>();
  }
  launch_gemv_q_sm90(launch, device.multiProcessorCount, nullptr);
  CHECK(relative_error(results(), expected) < 1e-3);
}

}  // namespace
}  // namespace skald::test
