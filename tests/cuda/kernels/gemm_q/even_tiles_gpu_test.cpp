// In a large product gemm_q_sm90 gives some of its blocks fewer weight rows than others. Such a
// product is compared with products of slices of its weight rows, none of which is that large.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "cuda/gpu/check.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/kernel_code.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/prepared_rows.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/random_tiles.h"
#include "tests/cuda/kernels/relative_error.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory;

constexpr int64_t kIns = 512, kSlice = 2048;

// The results of products of `slice` weight rows each. What nothing writes stays NaN.
std::vector<float> product(cuda::LinearLaunch launch, int64_t slice, int multiprocessors) {
  const bool gated = launch.epilogue == cuda::Epilogue::Gated;
  const int64_t outs = launch.outs, results = gated ? outs / 2 : outs;
  const auto* weight = static_cast<const std::byte*>(launch.weight);
  const DeviceMemory out = on_device(
      std::vector<uint16_t>(static_cast<size_t>(launch.rows * results), uint16_t{0x7fff}));
  const DeviceMemory workspace(cuda::gemm_q_workspace_bytes(launch.rows, launch.ins), "a test");
  SKALD_CUDA(cudaMemset(workspace.as<void>(), 0, static_cast<size_t>(workspace.bytes())));
  SKALD_CUDA(cudaDeviceSynchronize());
  const cuda::StreamOwner stream;
  launch.gemm_q.workspace = workspace.as<void>();
  launch.out_stride = results;
  launch.dependent = true;
  for (int64_t first = 0; first < outs; first += slice) {
    launch.outs = std::min(slice, outs - first);
    launch.weight = weight + cuda::tile_bytes(launch.format, first, launch.ins);
    launch.out = out.as<uint16_t>() + (gated ? first / 2 : first);
    launch_gemm_q_sm90(launch, multiprocessors, stream);
  }
  SKALD_CUDA(cudaStreamSynchronize(stream));
  std::vector<uint16_t> bits(static_cast<size_t>(launch.rows * results));
  SKALD_CUDA(cudaMemcpy(bits.data(), out.as<void>(), bits.size() * 2, cudaMemcpyDeviceToHost));
  std::vector<float> numbers;
  for (uint16_t number : bits) numbers.push_back(std::bit_cast<float>(uint32_t{number} << 16));
  return numbers;
}

void check_even(DType format, int64_t outs, cuda::Epilogue epilogue) {
  cudaDeviceProp device = {};
  SKALD_CUDA(cudaGetDeviceProperties(&device, 0));
  std::mt19937 random(7);
  const DeviceMemory weight = random_tiles(format, outs, kIns, random);
  for (const int rows : {2, 8, 13, 32, 50, 128}) {
    INFO(name(format) << ", " << outs << " outs, " << rows << " rows");
    std::vector<uint16_t> in(static_cast<size_t>(rows * kIns));
    for (uint16_t& number : in) {
      number = static_cast<uint16_t>((0x3e80 + random() % 0x200) | (random() % 2 << 15));
    }
    const DeviceMemory activations = on_device(in);
    cuda::LinearLaunch launch = {};
    launch.type = DType::BF16;
    launch.format = format;
    launch.weight = weight.as<void>();
    launch.outs = outs;
    launch.ins = kIns;
    launch.rows = rows;
    launch.in = activations.as<void>();
    launch.epilogue = epilogue;
    const bool supported = (runs_on(cuda::KernelCode::Sm90a, device.major * 10 + device.minor) &&
                            supports_gemm_q_sm90(launch));
    if (device.major == 9) REQUIRE(supported);
    if (!supported) return;
    const std::vector<float> whole = product(launch, outs, device.multiProcessorCount);
    const std::vector<float> sliced = product(launch, kSlice, device.multiProcessorCount);
    const bool complete =
        std::none_of(sliced.begin(), sliced.end(), [](float x) { return std::isnan(x); });
    REQUIRE(complete);
    // A result that a block left out would be NaN. Other results differ by the order of sums.
    CHECK(relative_error(whole, sliced) < 5e-4);
  }
}

}  // namespace

TEST_CASE("blocks with unlike numbers of weight rows leave out nothing") {
  check_even(DType::Q4_K, 28672, cuda::Epilogue::Gated);
  check_even(DType::Q8_0, 27001, cuda::Epilogue::Store);
  check_even(DType::Q6_K, 60000, cuda::Epilogue::Store);  // more blocks than multiprocessors
}

}  // namespace skald::test
