// How fast products of one quantized row are by themselves, in the shapes of an 8B model: one after
// the other in a graph, as in a decode step. Each reads weights that no cache has, and delays its
// fetching for the product ahead. Not part of a usual run: skald_gpu_tests "products of one
// quantized row alone".
#include <algorithm>
#include <bit>
#include <cstdio>
#include <random>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/gpu/check.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/kernel_code.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/linear.h"
#include "cuda/plan/tile_pack.h"
#include "engine/quant/dtype.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/random_tiles.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory;

struct Shape {
  const char* name;
  int64_t outs, ins;
  cuda::Epilogue epilogue;
};
constexpr Shape kShapes[] = {{"head", 128256, 4096, cuda::Epilogue::Logits},
                             {"gate and up", 28672, 4096, cuda::Epilogue::Gated},
                             {"down", 4096, 14336, cuda::Epilogue::AddTo}};

// Random bits of which any f16 is a small number, repeated until the memory is full.
DeviceMemory random_weights(int64_t bytes) {
  constexpr int64_t kOnce = 16 << 20;
  std::mt19937 random(1);
  std::vector<uint32_t> words(kOnce / 4);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random()) & 0x3f3f3f3f;
  DeviceMemory memory(bytes, "a test");
  for (int64_t at = 0; at < bytes; at += kOnce) {
    SKALD_CUDA(cudaMemcpy(memory.as<std::byte>() + at, words.data(),
                          static_cast<size_t>(std::min(kOnce, bytes - at)),
                          cudaMemcpyHostToDevice));
  }
  return memory;
}

// Seconds for each of `count` launches in a graph, in the fastest of some runs.
template <class Fn>
double seconds_each(cudaStream_t stream, int count, const Fn& launch) {
  SKALD_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < count; ++i) launch(i);
  cudaGraph_t captured = nullptr;
  SKALD_CUDA(cudaStreamEndCapture(stream, &captured));
  cudaGraphExec_t graph = nullptr;
  SKALD_CUDA(cudaGraphInstantiate(&graph, captured, 0));
  const cuda::TimedEventOwner start, end;
  float best = 0;
  for (int i = 0; i < 6; ++i) {
    SKALD_CUDA(cudaEventRecord(start, stream));
    SKALD_CUDA(cudaGraphLaunch(graph, stream));
    SKALD_CUDA(cudaEventRecord(end, stream));
    SKALD_CUDA(cudaEventSynchronize(end));
    float milliseconds = 0;
    SKALD_CUDA(cudaEventElapsedTime(&milliseconds, start, end));
    if (i == 0 || milliseconds < best) best = milliseconds;
  }
  SKALD_CUDA(cudaGraphExecDestroy(graph));
  SKALD_CUDA(cudaGraphDestroy(captured));
  return best * 1e-3 / count;
}

}  // namespace

TEST_CASE("products of one quantized row alone", "[.speed]") {
  constexpr int64_t kPool = int64_t{3} << 30;
  constexpr int kLaunches = 24;
  cudaDeviceProp device = {};
  SKALD_CUDA(cudaGetDeviceProperties(&device, 0));
  const double bandwidth = cuda::measure_read_bandwidth(0);
  const DeviceMemory weights = random_weights(kPool);
  std::vector<float> numbers(14336);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(static_cast<int>(i * 7919 % 2001) - 1000) / 500;
  }
  std::vector<uint16_t> narrow;
  for (const float number : numbers)
    narrow.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16));
  const DeviceMemory in = on_device(numbers), narrow_in = on_device(narrow);
  const DeviceMemory tickets = on_device(std::vector<unsigned>(kLaunches));
  const DeviceMemory signals = on_device(std::vector<unsigned>(kLaunches));
  const DeviceMemory out = on_device(std::vector<float>(128256));
  const cuda::StreamOwner stream;
  std::printf("%% of %.2f TB/s\n", bandwidth * 1e-12);
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.block_elems == 1) continue;
    std::printf("%-7s", format.name.data());
    for (const Shape& shape : kShapes) {
      const int64_t bytes = cuda::tile_bytes(format.type, shape.outs, shape.ins);
      const int64_t apart = (bytes + 127) / 128 * 128, matrices = kPool / apart;
      cuda::LinearLaunch product = {};
      product.type = DType::BF16;
      product.format = format.type;
      product.outs = product.out_stride = shape.outs;
      product.ins = shape.ins;
      product.rows = 1;
      const bool normed = shape.epilogue != cuda::Epilogue::AddTo;
      product.in = normed ? in.as<void>() : narrow_in.as<void>();
      if (normed) product.norm_weight = in.as<float>(), product.norm_eps = 1e-5f;
      product.out = out.as<void>();
      product.epilogue = shape.epilogue;
      product.dependent = true;
      if (!(runs_on(cuda::KernelCode::Sm90a, device.major * 10 + device.minor) &&
            supports_gemv_q_sm90(product)))
        continue;
      const double seconds = seconds_each(stream, kLaunches, [&](int i) {
        product.weight = weights.as<std::byte>() + i % matrices * apart;
        product.gemv.ticket = tickets.as<unsigned>() + i;
        // In each run of the graph the first launch waits for the count of the last launch of the
        // run before, which has long ended.
        product.gemv_q.wait = signals.as<unsigned>() + i;
        product.gemv_q.signal = signals.as<unsigned>() + (i + 1) % kLaunches;
        launch_gemv_q_sm90(product, device.multiProcessorCount, stream);
      });
      const double share = static_cast<double>(bytes) / seconds / bandwidth;
      std::printf("  %s %.1f us, %.1f %%", shape.name, seconds * 1e6, 100 * share);
      CHECK(share > 0.1);
    }
    std::printf("\n");
  }
}

}  // namespace skald::test
