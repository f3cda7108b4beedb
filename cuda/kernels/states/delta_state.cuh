// What the kernels of delta nets share: the part of a matrix S that a thread keeps in registers,
// and a token's update of it.
#pragma once

#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/states/conv_window.cuh"
#include "cuda/kernels/states/states.h"

namespace skald::cuda {

inline constexpr int kDeltaParts = 4;  // threads that share a column of S

// A row's factors for one value head.
struct DeltaFactors {
  float kept, corrected;
};
__device__ inline DeltaFactors delta_factors(const DeltaLaunch& a, int head, float decay,
                                             float beta) {
  const float x = decay + a.bias[head];
  const float softplus = x > 20 ? x : log1pf(expf(x));
  const float rate = a.log_rate ? -expf(a.rate[head]) : a.rate[head];
  return {expf(rate * softplus), 1 / (1 + expf(-beta))};
}

// A thread's numbers of S: rows 16 n + 4 part + e of one column. Four neighbouring lanes share a
// column, so that a warp reads a key as 64 adjacent bytes of shared memory at a time.
template <int kKeys>
class DeltaColumn {
 public:
  __device__ void clear() {
    for (float& x : s_) x = 0;
  }
  // `from` is S of the head: [kKeys, values].
  __device__ void load(const float* from, int values, int column, int part) {
#pragma unroll
    for (int i = 0; i < kKeys / kDeltaParts; ++i) {
      s_[i] = __ldcg(from + row(i, part) * values + column);
    }
  }
  __device__ void store(float* to, int values, int column, int part) const {
#pragma unroll
    for (int i = 0; i < kKeys / kDeltaParts; ++i) to[row(i, part) * values + column] = s_[i];
  }

  // One token: S = kept * S + key ⊗ corrected * (value - kept * Sᵀkey); returns Sᵀquery. All four
  // lanes of the column get the result. `key` and `query` lie in shared memory.
  __device__ float update(const float* key, const float* query, float value, DeltaFactors f,
                          int part) {
    const float held = all_parts(product(key, part));
    const float learned = f.corrected * (value - f.kept * held);
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      const float4 k = *reinterpret_cast<const float4*>(key + 16 * n + 4 * part);
      s_[4 * n] = fmaf(k.x, learned, f.kept * s_[4 * n]);
      s_[4 * n + 1] = fmaf(k.y, learned, f.kept * s_[4 * n + 1]);
      s_[4 * n + 2] = fmaf(k.z, learned, f.kept * s_[4 * n + 2]);
      s_[4 * n + 3] = fmaf(k.w, learned, f.kept * s_[4 * n + 3]);
    }
    return all_parts(product(query, part));
  }

 private:
  __device__ static int row(int i, int part) { return i / 4 * 16 + 4 * part + i % 4; }

  __device__ float product(const float* with, int part) const {
    float sums[4] = {};
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      const float4 x = *reinterpret_cast<const float4*>(with + 16 * n + 4 * part);
      sums[0] = fmaf(x.x, s_[4 * n], sums[0]);
      sums[1] = fmaf(x.y, s_[4 * n + 1], sums[1]);
      sums[2] = fmaf(x.z, s_[4 * n + 2], sums[2]);
      sums[3] = fmaf(x.w, s_[4 * n + 3], sums[3]);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  __device__ static float all_parts(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
  }

  float s_[kKeys / kDeltaParts];
};

// The numbers of one kind in a head's convolution: queries, keys or values.
struct DeltaSource {
  int64_t in;    // column of the product's row
  int64_t conv;  // column of the convolution
};
// Where column c of [query, key, value] of one value head lies.
__device__ inline DeltaSource delta_source(const DeltaShape& a, int head, DeltaHead place, int c) {
  const DeltaSpec& s = a.spec;
  const int64_t key_at = int64_t{place.group} * s.key_dim;
  if (c < s.key_dim) return {a.columns.query.of(place.group, 0) + c, key_at + c};
  c -= s.key_dim;
  if (c < s.key_dim) return {a.columns.key.of(place.group, 0) + c, a.keys() + key_at + c};
  c -= s.key_dim;
  return {a.columns.value.of(place.group, place.member) + c,
          2 * a.keys() + int64_t{head} * s.value_dim + c};
}
// The same for column c of the whole convolution.
__device__ inline int64_t delta_in_column(const DeltaShape& a, int64_t c) {
  const DeltaSpec& s = a.spec;
  if (c < a.keys()) {
    return a.columns.query.of(static_cast<int>(c / s.key_dim), 0) + c % s.key_dim;
  }
  c -= a.keys();
  if (c < a.keys()) return a.columns.key.of(static_cast<int>(c / s.key_dim), 0) + c % s.key_dim;
  c -= a.keys();
  const DeltaHead place = DeltaHead::of(s, static_cast<int>(c / s.value_dim));
  return a.columns.value.of(place.group, place.member) + c % s.value_dim;
}

// The state of row or sequence `index` of the step.
__device__ inline float* delta_state(const DeltaLaunch& a, int index) {
  return a.states + a.step.slots[index] * a.slot_floats;
}

// Some columns of a head's values.
struct DeltaSlice {
  int head, sequence, first, most;
};
// At the end of a prompt's rows the ring gets the last inputs of the convolution, whose old ones
// delta_conv has read. All threads of the block that has the slice call it. Several blocks read the
// same query and key; one of them keeps both.
template <class T>
__device__ void keep_last_inputs(const DeltaLaunch& a, DeltaSlice slice) {
  const DeltaSpec& s = a.shape.spec;
  const DeltaHead place = DeltaHead::of(s, slice.head);
  const int begin = a.step.begins[slice.sequence], end = a.step.begins[slice.sequence + 1];
  const int keys = 2 * s.key_dim, kept_keys = place.member == 0 && slice.first == 0 ? keys : 0;
  const int values = min(slice.most, s.value_dim - slice.first);
  for (int row = max(begin, end - (kConvTaps - 1)); row < end; ++row) {
    float* to =
        delta_state(a, slice.sequence) + a.step.positions[row] % kConvTaps * a.shape.conv_cols();
    const T* from = static_cast<const T*>(a.in) + row * a.shape.row_numbers;
    for (int i = threadIdx.x; i < kept_keys + values; i += blockDim.x) {
      const int c = i < kept_keys ? i : keys + slice.first + (i - kept_keys);
      const DeltaSource at = delta_source(a.shape, slice.head, place, c);
      to[at.conv] = to_float(from[at.in]);
    }
  }
}

}  // namespace skald::cuda
