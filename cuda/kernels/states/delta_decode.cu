// One row of each sequence: a block has one value head of one row, with four threads for each of
// the head's columns. Convolution, update, norm and gate in one launch. Everything that does not
// depend on the row is read before the block waits for the product: the matrix S, which is most of
// the bytes, the ring, and the weights.
#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/states/delta_state.cuh"

namespace skald::cuda {
namespace {

constexpr int kMostThreads = kDeltaParts * 128;
constexpr int kMostColumns = 3 * 128;  // a query, a key and a value

// The sum of x over the block; every thread gets it. `shared` has a float for each warp.
__device__ float sum_of_block(float x, float* shared) {
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += shared[warp];
  return sum;
}

template <class T, int kKeys>
__global__ void __launch_bounds__(kMostThreads) delta_decode(DeltaLaunch a) {
  __shared__ __align__(16) float row_s[kMostColumns];
  __shared__ float sums_s[kMostThreads / 32], lengths_s[2];
  __shared__ DeltaFactors factors_s;
  const DeltaSpec& s = a.shape.spec;
  const int head = blockIdx.x, row = blockIdx.y;
  const int column = threadIdx.x / kDeltaParts, part = threadIdx.x % kDeltaParts;
  const DeltaHead place = DeltaHead::of(s, head);
  const int position = a.step.positions[row];
  float* ring = delta_state(a, row);
  float* matrix = ring + a.shape.ring_floats() + int64_t{head} * kKeys * s.value_dim;
  const int64_t conv_cols = a.shape.conv_cols();
  let_next_kernel_start();

  DeltaColumn<kKeys> state;
  if (position == 0) {
    state.clear();
  } else {
    state.load(matrix, s.value_dim, column, part);
  }
  // A thread has at most kEach columns of the convolution: there are four threads for each value.
  constexpr int kEach = 1 + 2 * kKeys / 128;
  const int columns = 2 * kKeys + s.value_dim, threads = kDeltaParts * s.value_dim;
  float sums[kEach] = {}, newest[kEach] = {};
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int c = threadIdx.x + i * threads;
    if (c >= columns) break;
    const int64_t at = delta_source(a.shape, head, place, c).conv;
    const float4 weight = *reinterpret_cast<const float4*>(a.conv + at * kConvTaps);
    const float older[] = {weight.x, weight.y, weight.z};
    newest[i] = weight.w;
    for (int t = 0; t < kConvTaps - 1; ++t) {
      const int from = position - (kConvTaps - 1) + t;
      if (from >= 0) sums[i] += older[t] * __ldcg(ring + from % kConvTaps * conv_cols + at);
    }
  }
  const float norm = a.norm[column];

  wait_for_kernel_ahead();
  const T* in = static_cast<const T*>(a.in) + row * a.shape.row_numbers;
  const float gate =
      to_float(__ldcg(in + a.shape.columns.gate.of(place.group, place.member) + column));
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int c = threadIdx.x + i * threads;
    if (c >= columns) break;
    const DeltaSource from = delta_source(a.shape, head, place, c);
    const float x = to_float(__ldcg(in + from.in));
    row_s[c] = silu(sums[i] + newest[i] * x);
    // Several value heads read the same query and key; one of them keeps both.
    if (c >= 2 * kKeys || place.member == 0) {
      ring[position % kConvTaps * conv_cols + from.conv] = x;
    }
  }
  if (threadIdx.x == 0) {
    factors_s = delta_factors(
        a, head, to_float(__ldcg(in + a.shape.columns.decay.of(place.group, place.member))),
        to_float(__ldcg(in + a.shape.columns.beta.of(place.group, place.member))));
  }
  __syncthreads();
  if (threadIdx.x < 64) {  // one warp for the query, one for the key
    const int which = threadIdx.x / 32;
    float squares = 0;
    for (int i = threadIdx.x % 32; i < kKeys; i += 32) {
      squares += row_s[which * kKeys + i] * row_s[which * kKeys + i];
    }
    squares = warp_sum(squares) + kDeltaNormEps;
    if (threadIdx.x % 32 == 0) lengths_s[which] = rsqrtf(which == 0 ? squares * kKeys : squares);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * kKeys; i += threads) row_s[i] *= lengths_s[i / kKeys];
  __syncthreads();
  const float result =
      state.update(row_s + kKeys, row_s, row_s[2 * kKeys + column], factors_s, part);
  state.store(matrix, s.value_dim, column, part);
  const float squares = sum_of_block(part == 0 ? result * result : 0, sums_s);
  const float scale = rsqrtf(squares / static_cast<float>(s.value_dim) + a.norm_eps);
  if (part == 0) {
    T* out = static_cast<T*>(a.out) + row * a.shape.values() + int64_t{head} * s.value_dim;
    out[column] = from_float<T>(result * scale * norm * silu(gate));
  }
}

template <class T>
void launch_keys(const DeltaLaunch& a, Stream stream) {
  const DeltaSpec& s = a.shape.spec;
  const Grid grid = {dim3(s.value_heads, a.rows), kDeltaParts * s.value_dim, 0, a.dependent};
  const auto launch = [&](auto* kernel) {
    ask_for_all_shared(kernel);
    launch_kernel(kernel, grid, stream, a);
  };
  switch (s.key_dim) {
    case 16:
      return launch(delta_decode<T, 16>);
    case 32:
      return launch(delta_decode<T, 32>);
    case 64:
      return launch(delta_decode<T, 64>);
    default:
      return launch(delta_decode<T, 128>);
  }
}

}  // namespace

template <>
void launch_delta<kernel_id("delta_decode")>(const DeltaLaunch& a, Stream stream) {
  check(supports_delta(a.shape), "delta_decode supports the net");
  dispatch(a.shape.type, [&](auto type) { launch_keys<decltype(type)>(a, stream); });
}

}  // namespace skald::cuda
