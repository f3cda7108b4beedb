// Rows of prompts, one token after the other: the results of a row do not depend on how a prompt is
// divided. A block has 32 columns of one value head of one
// sequence, and keeps their part of S in registers from the first row to the last. Rows go through
// shared memory kRows at a time; the next ones are loaded while these are computed.
//
// Floor: 4 instructions for each number of S and row, 186 cycles a row for 48 heads of 128 x 128 on
// 132 multiprocessors.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/states/delta_state.cuh"

namespace skald::cuda {
namespace {

constexpr int kColumns = 32;
constexpr int kThreads = kColumns * kDeltaParts;
constexpr int kRows = 16;

template <int kKeys>
struct Shared {
  static constexpr int kNumbers = 2 * kKeys + kColumns;  // query, key, values of a row
  __align__(16) float rows[kRows][kNumbers];
  float out[kRows][kColumns];
  DeltaFactors factors[kRows];
};

template <class T, int kKeys>
__global__ void __launch_bounds__(kThreads) delta_rows(DeltaLaunch a) {
  using Four = Pack<T, 4>;
  using Memory = Shared<kKeys>;
  constexpr int kFours = Memory::kNumbers / 4;      // of a row
  constexpr int kEach = kRows * kFours / kThreads;  // of a thread
  static_assert(kRows * kFours % kThreads == 0);
  __shared__ Memory memory;
  const DeltaSpec& s = a.shape.spec;
  const int slices = s.value_dim / kColumns;
  const int head = blockIdx.x / slices, slice = blockIdx.x % slices, sequence = blockIdx.y;
  const int column = threadIdx.x / kDeltaParts, part = threadIdx.x % kDeltaParts;
  const DeltaHead place = DeltaHead::of(s, head);
  const int begin = a.step.begins[sequence], end = a.step.begins[sequence + 1];
  if (begin == end) return;
  float* ring = delta_state(a, sequence);
  float* matrix = ring + a.shape.ring_floats() + int64_t{head} * kKeys * s.value_dim +
                  int64_t{slice} * kColumns;

  DeltaColumn<kKeys> state;
  if (a.step.positions[begin] == 0) {
    state.clear();
  } else {
    state.load(matrix, s.value_dim, column, part);
  }

  const int64_t conv_cols = a.shape.conv_cols();
  const T* convolved = static_cast<const T*>(a.convolved);
  const T* in = static_cast<const T*>(a.in);
  const int decay_at = a.shape.columns.decay.of(place.group, place.member);
  const int beta_at = a.shape.columns.beta.of(place.group, place.member);
  // Column of the convolution of a row's four numbers `four`.
  const auto source = [&](int four) {
    const int c = 4 * four;
    const int64_t key_at = int64_t{place.group} * s.key_dim;
    if (c < kKeys) return key_at + c;
    if (c < 2 * kKeys) return a.shape.keys() + key_at + (c - kKeys);
    return 2 * a.shape.keys() + int64_t{head} * s.value_dim + slice * kColumns + (c - 2 * kKeys);
  };
  Four next[kEach];
  T next_decay{}, next_beta{};
  const auto load = [&](int first) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int index = threadIdx.x + i * kThreads;
      const int row = first + index / kFours;
      if (row >= end) break;
      next[i] =
          *reinterpret_cast<const Four*>(convolved + row * conv_cols + source(index % kFours));
    }
    const int row = first + static_cast<int>(threadIdx.x);
    if (threadIdx.x < kRows && row < end) {
      next_decay = in[row * a.shape.row_numbers + decay_at];
      next_beta = in[row * a.shape.row_numbers + beta_at];
    }
  };

  load(begin);
  for (int first = begin; first < end; first += kRows) {
    const int count = min(kRows, end - first);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int index = threadIdx.x + i * kThreads;
      float* to = &memory.rows[index / kFours][4 * (index % kFours)];
      *reinterpret_cast<float4*>(to) = make_float4(to_float(next[i].x[0]), to_float(next[i].x[1]),
                                                   to_float(next[i].x[2]), to_float(next[i].x[3]));
    }
    if (threadIdx.x < kRows) {
      memory.factors[threadIdx.x] =
          delta_factors(a, head, to_float(next_decay), to_float(next_beta));
    }
    __syncthreads();
    load(first + kRows);
#pragma unroll 2
    for (int r = 0; r < count; ++r) {
      const float* row = memory.rows[r];
      const float result =
          state.update(row + kKeys, row, row[2 * kKeys + column], memory.factors[r], part);
      if (part == 0) memory.out[r][column] = result;
    }
    __syncthreads();
    T* out = static_cast<T*>(a.out) + first * a.shape.values() + int64_t{head} * s.value_dim +
             int64_t{slice} * kColumns;
    for (int i = threadIdx.x; i < count * kColumns; i += kThreads) {
      out[i / kColumns * a.shape.values() + i % kColumns] =
          from_float<T>(memory.out[i / kColumns][i % kColumns]);
    }
  }
  state.store(matrix, s.value_dim, column, part);
  keep_last_inputs<T>(a, {head, sequence, slice * kColumns, kColumns});
}

template <class T>
void launch_keys(const DeltaLaunch& a, Stream stream) {
  const DeltaSpec& s = a.shape.spec;
  const Grid grid = {dim3(s.value_heads * (s.value_dim / kColumns), a.sequences), kThreads};
  switch (s.key_dim) {
    case 16:
      return launch_kernel(delta_rows<T, 16>, grid, stream, a);
    case 32:
      return launch_kernel(delta_rows<T, 32>, grid, stream, a);
    case 64:
      return launch_kernel(delta_rows<T, 64>, grid, stream, a);
    default:
      return launch_kernel(delta_rows<T, 128>, grid, stream, a);
  }
}

}  // namespace

template <>
void launch_delta<kernel_id("delta_rows")>(const DeltaLaunch& a, Stream stream) {
  check(supports_delta(a.shape), "delta_rows supports the net");
  launch_delta_conv(a, stream);
  dispatch(a.shape.type, [&](auto type) { launch_keys<decltype(type)>(a, stream); });
  launch_delta_finish(a, stream);
}

}  // namespace skald::cuda
