// One row of each sequence: a block has kSpaceSlice rows of one head's matrix. Convolution and
// update in one launch. Everything that does not depend on the row is read before the block waits
// for the product: the matrix, which is most of the bytes, the ring, and the weights.
//
// Floor: S read and written once, 8 * heads * head_dim * state_dim bytes a row.
#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/states/conv_window.cuh"
#include "cuda/kernels/states/space_state.cuh"

namespace skald::cuda {
namespace {

template <class T, int kState>
__global__ void __launch_bounds__(kSpaceThreads) space_decode(SpaceLaunch a) {
  constexpr int kNumbers = 2 * kState + kSpaceSlice;  // key, query, values of the slice
  constexpr int kEach = (kNumbers + kSpaceThreads - 1) / kSpaceThreads;
  __shared__ __align__(16) float row_s[kNumbers];
  __shared__ SpaceFactors factors_s;
  const SpaceSpec& s = a.shape.spec;
  const SpacePart part = SpacePart::of(s, static_cast<int>(blockIdx.x));
  const int row = blockIdx.y, position = a.step.positions[row];
  float* const ring = space_state(a, row);
  float* const matrix = part.matrix(a, ring);
  const int64_t cols = a.shape.conv_cols();
  let_next_kernel_start();

  SpaceRows<kState> state;
  if (position == 0) {
    state.clear();
  } else {
    state.load(matrix);
  }
  float sums[kEach] = {}, newest[kEach] = {}, biases[kEach] = {};
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int c = threadIdx.x + i * kSpaceThreads;
    if (c >= kNumbers) break;
    const int64_t at = part.column(a.shape, c);
    const float4 weight = *reinterpret_cast<const float4*>(a.conv + at * kConvTaps);
    const auto older = [&](int back) {
      return position >= back ? __ldcg(ring + (position - back) % kConvTaps * cols + at) : 0;
    };
    // The terms and their order are ConvWindow's.
    sums[i] = weight.x * older(3) + weight.y * older(2) + weight.z * older(1);
    newest[i] = weight.w;
    if (a.conv_bias) biases[i] = a.conv_bias[at];
  }
  const float skip = a.skip[part.head];

  wait_for_kernel_ahead();
  const T* in = static_cast<const T*>(a.in) + row * a.shape.row_numbers;
  const bool keeps_keys = part.keeps_keys(s);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int c = threadIdx.x + i * kSpaceThreads;
    if (c >= kNumbers) break;
    const int64_t at = part.column(a.shape, c);
    const float x = to_float(__ldcg(in + a.shape.columns.mixed + at));
    row_s[c] = to_float(from_float<T>(silu(biases[i] + (sums[i] + newest[i] * x))));
    if (keeps_keys || c >= 2 * kState) ring[position % kConvTaps * cols + at] = x;
  }
  if (threadIdx.x == 0) {
    factors_s =
        space_factors(a, part.head, to_float(__ldcg(in + a.shape.columns.step + part.head)));
  }
  __syncthreads();
  const float* const values = row_s + 2 * kState;
  float results[kSpaceOwn];
  state.update(row_s, row_s + kState, values, factors_s, results);
  state.store(matrix);
  if (state.lane() != 0) return;
  T* out = static_cast<T*>(a.out) + row * a.shape.values() + int64_t{part.head} * s.head_dim +
           part.first;
#pragma unroll
  for (int i = 0; i < kSpaceOwn; ++i) {
    const int own = state.own(i);
    out[own] = from_float<T>(fmaf(skip, values[own], results[i]));
  }
}

template <class T>
void launch_states(const SpaceLaunch& a, Stream stream) {
  const SpaceSpec& s = a.shape.spec;
  const Grid grid = {dim3(s.heads * (s.head_dim / kSpaceSlice), a.rows), kSpaceThreads, 0,
                     a.dependent};
  const auto launch = [&](auto* kernel) {
    ask_for_all_shared(kernel);
    launch_kernel(kernel, grid, stream, a);
  };
  if (s.state_dim == 64) return launch(space_decode<T, 64>);
  if (s.state_dim == 128) return launch(space_decode<T, 128>);
  launch(space_decode<T, 256>);
}

}  // namespace

template <>
void launch_space<kernel_id("space_decode")>(const SpaceLaunch& a, Stream stream) {
  check(supports_space(a.shape), "space_decode supports the state space");
  dispatch(a.shape.type, [&](auto type) { launch_states<decltype(type)>(a, stream); });
  launch_space_finish(a, stream);
}

}  // namespace skald::cuda
