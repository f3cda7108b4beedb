// The convolution of prompts' rows, and what follows the update. A warp of space_conv has 128
// columns of some adjacent rows.
//
// Floor: the rows read and written once; space_finish reads two numbers for each that it writes.
#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/states/conv_window.cuh"
#include "cuda/kernels/states/space_state.cuh"

namespace skald::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kWarpRows = 16;

template <class T>
__global__ void __launch_bounds__(kWarps * 32) space_conv(SpaceLaunch a) {
  using Window = ConvWindow<T>;
  using Numbers = Pack<T, Window::kCols>;
  const int64_t cols = a.shape.conv_cols();
  const int64_t col = (int64_t{blockIdx.y} * 32 + threadIdx.x % 32) * Window::kCols;
  if (col >= cols) return;
  const int begin = (blockIdx.x * kWarps + threadIdx.x / 32) * kWarpRows;
  const int end = min(begin + kWarpRows, a.rows);
  const T* in = static_cast<const T*>(a.in) + a.shape.columns.mixed + col;
  Window window(a.conv + col * kConvTaps, a.conv_bias ? a.conv_bias + col : nullptr);
  int sequence = -1;
  for (int row = begin; row < end; ++row) {
    if (a.step.sequences[row] != sequence) {
      sequence = a.step.sequences[row];
      window.start({in, a.shape.row_numbers, space_state(a, sequence) + col, cols},
                   {row, a.step.begins[sequence], a.step.positions[row]});
    }
    float out[Window::kCols];
    window.next(*reinterpret_cast<const Numbers*>(in + row * a.shape.row_numbers), out);
    Numbers rounded;
#pragma unroll
    for (int c = 0; c < Window::kCols; ++c) rounded.x[c] = from_float<T>(out[c]);
    *reinterpret_cast<Numbers*>(static_cast<T*>(a.convolved) + row * cols + col) = rounded;
  }
}

constexpr int kFinishThreads = 256;
constexpr int kFinishKept = 8;  // accesses of a thread whose results stay in registers

// A block has one group of one row. kCount: numbers of an access; divides a group's.
template <class T, int kCount>
__global__ void __launch_bounds__(kFinishThreads) space_finish(SpaceLaunch a) {
  using Some = Pack<T, kCount>;
  __shared__ float sums[kFinishThreads / 32];
  const int64_t cols = a.shape.values() / a.shape.spec.groups, count = cols / kCount;
  const int64_t first = blockIdx.y * cols, row = blockIdx.x;
  auto* const out =
      reinterpret_cast<Some*>(static_cast<T*>(a.out) + row * a.shape.values() + first);
  const auto* const gate = reinterpret_cast<const Some*>(
      static_cast<const T*>(a.in) + row * a.shape.row_numbers + a.shape.columns.gate + first);
  const float* const norm = a.norm + first;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const auto gated = [&](int64_t i, float(&to)[kCount]) {
    const Some x = out[i], g = gate[i];
#pragma unroll
    for (int n = 0; n < kCount; ++n) to[n] = to_float(x.x[n]) * silu(to_float(g.x[n]));
  };
  float kept[kFinishKept][kCount], more[kCount], squares = 0;
#pragma unroll
  for (int k = 0; k < kFinishKept; ++k) {
    const int64_t i = threadIdx.x + k * kFinishThreads;
    if (i >= count) break;
    gated(i, kept[k]);
    for (float x : kept[k]) squares += x * x;
  }
  const int64_t rest = threadIdx.x + kFinishKept * kFinishThreads;
  for (int64_t i = rest; i < count; i += kFinishThreads) {
    gated(i, more);
    for (float x : more) squares += x * x;
  }
  squares = block_sum<kFinishThreads>(squares, sums);
  const float scale = rsqrtf(squares / static_cast<float>(cols) + a.norm_eps);
  const auto store = [&](int64_t i, const float(&from)[kCount]) {
    Some rounded;
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      rounded.x[n] = from_float<T>(from[n] * scale * norm[i * kCount + n]);
    }
    out[i] = rounded;
  };
#pragma unroll
  for (int k = 0; k < kFinishKept; ++k) {
    const int64_t i = threadIdx.x + k * kFinishThreads;
    if (i < count) store(i, kept[k]);
  }
  for (int64_t i = rest; i < count; i += kFinishThreads) {
    gated(i, more);
    store(i, more);
  }
}

unsigned blocks_for(int64_t count, int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

}  // namespace

void launch_space_conv(const SpaceLaunch& a, Stream stream) {
  const dim3 blocks(blocks_for(a.rows, kWarps * kWarpRows), blocks_for(a.shape.conv_cols(), 128));
  dispatch(a.shape.type, [&](auto type) {
    launch_kernel(space_conv<decltype(type)>, {blocks, kWarps * 32}, stream, a);
  });
}

void launch_space_finish(const SpaceLaunch& a, Stream stream) {
  const SpaceShape& s = a.shape;
  const Grid grid = {dim3(a.rows, s.spec.groups), kFinishThreads, 0, a.dependent};
  constexpr int kMost = 4;
  const bool many = s.values() / s.spec.groups % kMost == 0 && s.row_numbers % kMost == 0 &&
                    s.columns.gate % kMost == 0;
  dispatch(s.type, [&](auto type) {
    using T = decltype(type);
    const auto kernel = many ? space_finish<T, kMost> : space_finish<T, 1>;
    ask_for_all_shared(kernel);
    launch_kernel(kernel, grid, stream, a);
  });
}

}  // namespace skald::cuda
