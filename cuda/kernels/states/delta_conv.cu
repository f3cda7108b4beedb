// The convolution of prompts' rows, and what follows the update. A warp of delta_conv has 128
// columns of some adjacent rows. It keeps the last inputs of each column in registers. Lanes that
// hold one query or key add up its squares and scale it to its length.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/states/delta_state.cuh"

namespace skald::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kWarpCols = 128;
constexpr int kWarpRows = 16;

template <class T>
__global__ void __launch_bounds__(kWarps * 32) delta_conv(DeltaLaunch a) {
  using Window = ConvWindow<T>;
  using Four = Pack<T, Window::kCols>;
  const DeltaSpec& s = a.shape.spec;
  const int64_t cols = a.shape.conv_cols();
  const int lane = threadIdx.x % 32;
  const int begin = (blockIdx.x * kWarps + threadIdx.x / 32) * kWarpRows;
  const int end = min(begin + kWarpRows, a.rows);
  // All lanes stay, because they add up squares together.
  const int64_t own = int64_t{blockIdx.y} * kWarpCols + lane * Window::kCols;
  const bool used = own < cols;
  const int64_t col = used ? own : 0;
  const T* in = static_cast<const T*>(a.in) + delta_in_column(a.shape, col);
  const bool query = used && col < a.shape.keys(), normed = used && col < 2 * a.shape.keys();
  const float factor = query ? static_cast<float>(s.key_dim) : 1;  // of the squared length
  Window window(a.conv + col * kConvTaps, nullptr);
  int sequence = -1;
  for (int row = begin; row < end; ++row) {
    if (a.step.sequences[row] != sequence) {
      sequence = a.step.sequences[row];
      window.start({in, a.shape.row_numbers, delta_state(a, sequence) + col, cols},
                   {row, a.step.begins[sequence], a.step.positions[row]});
    }
    float out[Window::kCols], squares = 0;
    window.next(*reinterpret_cast<const Four*>(in + row * a.shape.row_numbers), out);
#pragma unroll
    for (float x : out) squares += x * x;
    // A query or key begins at a multiple of its length, so no other head's lanes are among these.
    for (int offset = s.key_dim / Window::kCols / 2; offset > 0; offset /= 2) {
      squares += __shfl_xor_sync(~0u, squares, offset);
    }
    const float scale = normed ? rsqrtf((squares + kDeltaNormEps) * factor) : 1;
    if (!used) continue;
    Four rounded;
#pragma unroll
    for (int c = 0; c < Window::kCols; ++c) rounded.x[c] = from_float<T>(out[c] * scale);
    *reinterpret_cast<Four*>(static_cast<T*>(a.convolved) + row * cols + col) = rounded;
  }
}

constexpr int kFinishWarps = 8;

// A warp has one head of one row.
template <class T>
__global__ void __launch_bounds__(kFinishWarps * 32) delta_finish(DeltaLaunch a) {
  const DeltaSpec& s = a.shape.spec;
  const int64_t index = int64_t{blockIdx.x} * kFinishWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (index >= int64_t{a.rows} * s.value_heads) return;
  const int row = static_cast<int>(index / s.value_heads);
  const int head = static_cast<int>(index % s.value_heads);
  const DeltaHead place = DeltaHead::of(s, head);
  T* out = static_cast<T*>(a.out) + index * s.value_dim;
  const T* gate = static_cast<const T*>(a.in) + row * a.shape.row_numbers +
                  a.shape.columns.gate.of(place.group, place.member);
  float squares = 0;
  for (int i = lane; i < s.value_dim; i += 32) {
    const float x = to_float(out[i]);
    squares += x * x;
  }
  const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(s.value_dim) + a.norm_eps);
  for (int i = lane; i < s.value_dim; i += 32) {
    out[i] = from_float<T>(to_float(out[i]) * scale * a.norm[i] * silu(to_float(gate[i])));
  }
}

unsigned blocks_for(int64_t count, int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

}  // namespace

void launch_delta_conv(const DeltaLaunch& a, Stream stream) {
  const dim3 blocks(blocks_for(a.rows, kWarps * kWarpRows),
                    blocks_for(a.shape.conv_cols(), kWarpCols));
  dispatch(a.shape.type, [&](auto type) {
    launch_kernel(delta_conv<decltype(type)>, {blocks, kWarps * 32}, stream, a);
  });
}

void launch_delta_finish(const DeltaLaunch& a, Stream stream) {
  const dim3 blocks(blocks_for(int64_t{a.rows} * a.shape.spec.value_heads, kFinishWarps));
  dispatch(a.shape.type, [&](auto type) {
    launch_kernel(delta_finish<decltype(type)>, {blocks, kFinishWarps * 32}, stream, a);
  });
}

}  // namespace skald::cuda
