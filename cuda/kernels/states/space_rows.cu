// Rows of prompts, one token after the other: the results of a row do not depend on how a prompt is
// divided. A block has kSpaceSlice rows of one head's matrix of one sequence, in registers from the
// first token to the last. Tokens go through shared memory kTokens at a time; the next ones are
// loaded while these are computed.
//
// Floor: 3 instructions for each number of S and token; 186 cycles a token for 128 heads of 64 x
// 128 on 132 multiprocessors.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/states/space_state.cuh"

namespace skald::cuda {
namespace {

constexpr int kTokens = 16;

template <class T, int kState>
__global__ void __launch_bounds__(kSpaceThreads) space_rows(SpaceLaunch a) {
  using Four = Pack<T, 4>;
  constexpr int kNumbers = 2 * kState + kSpaceSlice;  // key, query, values of a token
  constexpr int kFours = kNumbers / 4;
  constexpr int kEach = kTokens * kFours / kSpaceThreads;
  static_assert(kTokens * kFours % kSpaceThreads == 0);
  __shared__ __align__(16) float rows_s[kTokens][kNumbers];
  __shared__ float out_s[kTokens][kSpaceSlice];
  __shared__ SpaceFactors factors_s[kTokens];
  const SpaceSpec& s = a.shape.spec;
  const SpacePart part = SpacePart::of(s, static_cast<int>(blockIdx.x));
  const int sequence = blockIdx.y;
  const int begin = a.step.begins[sequence], end = a.step.begins[sequence + 1];
  if (begin == end) return;
  float* const matrix = part.matrix(a, space_state(a, sequence));
  SpaceRows<kState> state;
  if (a.step.positions[begin] == 0) {
    state.clear();
  } else {
    state.load(matrix);
  }

  const int64_t cols = a.shape.conv_cols();
  const T* const convolved = static_cast<const T*>(a.convolved);
  const T* const steps = static_cast<const T*>(a.in) + a.shape.columns.step + part.head;
  Four next[kEach];
  T next_step{};
  const auto load = [&](int first) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int index = threadIdx.x + i * kSpaceThreads;
      const int row = first + index / kFours;
      if (row >= end) break;
      next[i] = *reinterpret_cast<const Four*>(convolved + row * cols +
                                               part.column(a.shape, index % kFours * 4));
    }
    const int row = first + static_cast<int>(threadIdx.x);
    if (threadIdx.x < kTokens && row < end) next_step = steps[row * a.shape.row_numbers];
  };

  const float skip = a.skip[part.head];
  load(begin);
  for (int first = begin; first < end; first += kTokens) {
    const int count = min(kTokens, end - first);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int index = threadIdx.x + i * kSpaceThreads;
      float* to = &rows_s[index / kFours][index % kFours * 4];
      *reinterpret_cast<float4*>(to) = make_float4(to_float(next[i].x[0]), to_float(next[i].x[1]),
                                                   to_float(next[i].x[2]), to_float(next[i].x[3]));
    }
    if (threadIdx.x < kTokens) {
      factors_s[threadIdx.x] = space_factors(a, part.head, to_float(next_step));
    }
    __syncthreads();
    load(first + kTokens);
#pragma unroll 1
    for (int t = 0; t < count; ++t) {
      const float *row = rows_s[t], *values = row + 2 * kState;
      float results[kSpaceOwn];
      state.update(row, row + kState, values, factors_s[t], results);
      if (state.lane() != 0) continue;
#pragma unroll
      for (int i = 0; i < kSpaceOwn; ++i) {
        const int own = state.own(i);
        out_s[t][own] = fmaf(skip, values[own], results[i]);
      }
    }
    __syncthreads();
    T* out = static_cast<T*>(a.out) + first * a.shape.values() + int64_t{part.head} * s.head_dim +
             part.first;
    for (int i = threadIdx.x; i < count * kSpaceSlice; i += kSpaceThreads) {
      out[i / kSpaceSlice * a.shape.values() + i % kSpaceSlice] =
          from_float<T>(out_s[i / kSpaceSlice][i % kSpaceSlice]);
    }
  }
  state.store(matrix);
  keep_inputs<T>(a, sequence, part.column(a.shape, 2 * kState), kSpaceSlice);
  if (!part.keeps_keys(s)) return;
  keep_inputs<T>(a, sequence, part.column(a.shape, 0), kState);
  keep_inputs<T>(a, sequence, part.column(a.shape, kState), kState);
}

template <class T>
void launch_states(const SpaceLaunch& a, Stream stream) {
  const SpaceSpec& s = a.shape.spec;
  const Grid grid = {dim3(s.heads * (s.head_dim / kSpaceSlice), a.sequences), kSpaceThreads};
  if (s.state_dim == 64) return launch_kernel(space_rows<T, 64>, grid, stream, a);
  if (s.state_dim == 128) return launch_kernel(space_rows<T, 128>, grid, stream, a);
  launch_kernel(space_rows<T, 256>, grid, stream, a);
}

}  // namespace

template <>
void launch_space<kernel_id("space_rows")>(const SpaceLaunch& a, Stream stream) {
  check(supports_space(a.shape), "space_rows supports the state space");
  launch_space_conv(a, stream);
  dispatch(a.shape.type, [&](auto type) { launch_states<decltype(type)>(a, stream); });
  launch_space_finish(a, stream);
}

}  // namespace skald::cuda
