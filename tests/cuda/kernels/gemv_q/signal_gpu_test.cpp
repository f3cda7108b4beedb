// A quantized product of one row may delay its loads, so that the product before it gets the memory
// bandwidth (GemvQPart::signal). It gives the same bits with and without the delay, and sets the
// counter back to zero for the next two products.
#include <vector>

#include "cuda/gpu/check.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/kernel_code.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/linear.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/random_tiles.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory;

// Never: the second product has a counter to wait for, but the first does not add to it.
enum class Delay { No, Yes, Never };

template <class T>
std::vector<T> to_host(const DeviceMemory& memory) {
  std::vector<T> numbers(static_cast<size_t>(memory.bytes()) / sizeof(T));
  SKALD_CUDA(cudaMemcpy(numbers.data(), memory.as<void>(), numbers.size() * sizeof(T),
                        cudaMemcpyDeviceToHost));
  return numbers;
}

// Runs gate and up, [2 * inner, dim], and then down, [dim, inner], for some layers.
void check_delay(DType format, int64_t dim, int64_t inner, int layers) {
  cudaDeviceProp device = {};
  SKALD_CUDA(cudaGetDeviceProperties(&device, 0));
  std::mt19937 random(3);
  const DeviceMemory gate_up = random_tiles(format, 2 * inner, dim, random);
  const DeviceMemory down = random_tiles(format, dim, inner, random);
  const DeviceMemory norm = on_device(std::vector<float>(static_cast<size_t>(dim), 0.5f));
  const DeviceMemory tickets = on_device(std::vector<unsigned>(2));
  const DeviceMemory count = on_device(std::vector<unsigned>(1));
  const DeviceMemory gated(inner * 2, "a test");
  const cuda::StreamOwner stream;
  bool supported = true;

  const auto run = [&](Delay delay) {
    const DeviceMemory x = on_device(std::vector<float>(static_cast<size_t>(dim), 1.0f));
    for (int layer = 0; layer < layers; ++layer) {
      cuda::LinearLaunch launch = {};
      launch.type = DType::BF16;
      launch.format = format;
      launch.rows = 1;
      launch.dependent = true;
      cuda::LinearLaunch next = launch;

      launch.weight = gate_up.as<void>();
      launch.outs = 2 * inner;
      launch.ins = dim;
      launch.in = x.as<void>();
      launch.norm_weight = norm.as<float>();
      launch.norm_eps = 1e-5f;
      launch.out = gated.as<void>();
      launch.out_stride = inner;
      launch.epilogue = cuda::Epilogue::Gated;
      launch.gemv.ticket = tickets.as<unsigned>();
      if (delay == Delay::Yes) launch.gemv_q.signal = count.as<unsigned>();

      next.weight = down.as<void>();
      next.outs = next.out_stride = dim;
      next.ins = inner;
      next.in = gated.as<void>();
      next.out = x.as<void>();
      next.epilogue = cuda::Epilogue::AddTo;
      next.scale = 1e-3f;
      next.gemv.ticket = tickets.as<unsigned>() + 1;
      if (delay != Delay::No) next.gemv_q.wait = count.as<unsigned>();

      const int capability = device.major * 10 + device.minor;
      supported = runs_on(cuda::KernelCode::Sm90a, capability) && supports_gemv_q_sm90(launch) &&
                  supports_gemv_q_sm90(next);
      if (!supported) return std::vector<float>();
      launch_gemv_q_sm90(launch, device.multiProcessorCount, stream);
      launch_gemv_q_sm90(next, device.multiProcessorCount, stream);
    }
    SKALD_CUDA(cudaStreamSynchronize(stream));
    return to_host<float>(x);
  };
  const std::vector<float> apart = run(Delay::No);
  if (device.major == 9) REQUIRE(supported);
  if (!supported) return;
  CHECK(apart != std::vector<float>(static_cast<size_t>(dim), 1.0f));
  for (int i = 0; i < 3; ++i) {
    CHECK(run(Delay::Yes) == apart);
    CHECK(to_host<unsigned>(count) == std::vector<unsigned>(1));
  }
  CHECK(run(Delay::Never) == apart);
}

}  // namespace

TEST_CASE("a product that delays its fetching for the one ahead gives the same bits") {
  check_delay(DType::Q4_0, 4096, 14336, 4);
  check_delay(DType::Q6_K, 2048, 8192, 8);
  check_delay(DType::Q8_0, 4096, 4096, 8);
  check_delay(DType::Q4_K, 256, 14336, 8);  // some blocks have no weights
  check_delay(DType::Q5_0, 288, 160, 8);
}

TEST_CASE("a small product that delays its fetching for the one ahead", "[small]") {
  check_delay(DType::Q4_K, 512, 1024, 2);
  check_delay(DType::Q8_0, 2560, 512, 2);
}

}  // namespace skald::test
