// What the kernels of state spaces share: the part of a matrix S that a thread keeps in registers,
// and a token's update of it.
#pragma once

#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/states/space.h"

namespace skald::cuda {

// A row's factors for one head.
struct SpaceFactors {
  float kept, step;
};
// `step` is the product's number, without the bias.
__device__ inline float space_step(const SpaceLaunch& a, int head, float step) {
  const SpaceSpec& s = a.shape.spec;
  const float x = step + a.bias[head];
  const float y = x > 20 ? x : log1pf(expf(x));
  return y < s.least_step ? s.least_step : y > s.most_step ? s.most_step : y;  // NaN stays
}
__device__ inline float space_rate(const SpaceLaunch& a, int head) {
  return a.log_rate ? -expf(a.rate[head]) : a.rate[head];
}
__device__ inline SpaceFactors space_factors(const SpaceLaunch& a, int head, float step) {
  const float bounded = space_step(a, head, step);
  return {expf(space_rate(a, head) * bounded), bounded};
}

// The state of row or sequence `index` of the step.
__device__ inline float* space_state(const SpaceLaunch& a, int index) {
  return a.states + a.step.slots[index] * a.slot_floats;
}

inline constexpr int kSpaceLanes = 8;  // neighbouring lanes that share a row of S
inline constexpr int kSpaceThreads = 128;
inline constexpr int kSpaceOwn = 2;  // rows of S that a thread has a part of
// Rows of S of a block.
inline constexpr int kSpaceSlice = kSpaceThreads / kSpaceLanes * kSpaceOwn;

// A thread's numbers of S, of rows `own()` of the block's slice: lane l of a row's eight lanes has
// columns 32 n + 4 l to 32 n + 4 l + 3, for each n.
template <int kState>
class SpaceRows {
 public:
  // Row i of the thread, in the block's slice.
  __device__ static int own(int i) {
    return i * (kSpaceThreads / kSpaceLanes) + static_cast<int>(threadIdx.x) / kSpaceLanes;
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kSpaceLanes; }

  __device__ void clear() {
    for (auto& row : s_) {
      for (float4& x : row) x = make_float4(0, 0, 0, 0);
    }
  }
  // `from` is the slice's first row.
  __device__ void load(const float* from) {
#pragma unroll
    for (int i = 0; i < kSpaceOwn; ++i) {
#pragma unroll
      for (int n = 0; n < kFours; ++n) s_[i][n] = __ldcg(four(from, i, n));
    }
  }
  __device__ void store(float* to) const {
#pragma unroll
    for (int i = 0; i < kSpaceOwn; ++i) {
#pragma unroll
      for (int n = 0; n < kFours; ++n) *four(to, i, n) = s_[i][n];
    }
  }

  // One token: S = kept * S + step * value ⊗ key. sums[i] becomes S · query of the thread's row i,
  // in all lanes of the row. `key`, `query` and `values`, those of the slice, lie in shared memory.
  __device__ void update(const float* key, const float* query, const float* values, SpaceFactors f,
                         float (&sums)[kSpaceOwn]) {
    float learned[kSpaceOwn];
    float4 parts[kSpaceOwn] = {};
#pragma unroll
    for (int i = 0; i < kSpaceOwn; ++i) learned[i] = f.step * values[own(i)];
#pragma unroll
    for (int n = 0; n < kFours; ++n) {
      const float4 k = *four(key, n), q = *four(query, n);
#pragma unroll
      for (int i = 0; i < kSpaceOwn; ++i) {
        float4& s = s_[i][n];
        s.x = fmaf(learned[i], k.x, f.kept * s.x);
        s.y = fmaf(learned[i], k.y, f.kept * s.y);
        s.z = fmaf(learned[i], k.z, f.kept * s.z);
        s.w = fmaf(learned[i], k.w, f.kept * s.w);
        parts[i].x = fmaf(s.x, q.x, parts[i].x);
        parts[i].y = fmaf(s.y, q.y, parts[i].y);
        parts[i].z = fmaf(s.z, q.z, parts[i].z);
        parts[i].w = fmaf(s.w, q.w, parts[i].w);
      }
    }
#pragma unroll
    for (int i = 0; i < kSpaceOwn; ++i) {
      float sum = (parts[i].x + parts[i].y) + (parts[i].z + parts[i].w);
      for (int lanes = 1; lanes < kSpaceLanes; lanes *= 2) {
        sum += __shfl_xor_sync(~0u, sum, lanes);
      }
      sums[i] = sum;
    }
  }

 private:
  static constexpr int kFours = kState / (4 * kSpaceLanes);  // of a thread, in each row

  template <class Float>
  __device__ static auto four(Float* row, int n) {
    using Four = std::conditional_t<std::is_const_v<Float>, const float4, float4>;
    return reinterpret_cast<Four*>(row) + n * kSpaceLanes + lane();
  }
  template <class Float>
  __device__ static auto four(Float* slice, int i, int n) {
    return four(slice + own(i) * kState, n);
  }

  float4 s_[kSpaceOwn][kFours];
};

// A block's part of a layer: some rows of one head's matrix.
struct SpacePart {
  int head, group, first;  // the slice's first row of S

  __device__ static SpacePart of(const SpaceSpec& s, int block) {
    const int slices = s.head_dim / kSpaceSlice, head = block / slices;
    return {head, head / (s.heads / s.groups), block % slices * kSpaceSlice};
  }
  // Blocks that share a key and a query write different columns of the ring: this one has them.
  __device__ bool keeps_keys(const SpaceSpec& s) const {
    return first == 0 && head % (s.heads / s.groups) == 0;
  }
  // Column of the convolution of number c of [key, query, values of the slice].
  __device__ int64_t column(const SpaceShape& a, int c) const {
    const int state = a.spec.state_dim;
    const int64_t key_at = int64_t{group} * state;
    if (c < state) return a.values() + key_at + c;
    if (c < 2 * state) return a.values() + a.keys() + key_at + (c - state);
    return int64_t{head} * a.spec.head_dim + first + (c - 2 * state);
  }
  __device__ float* matrix(const SpaceLaunch& a, float* state) const {
    const SpaceSpec& s = a.shape.spec;
    return state + a.shape.ring_floats() +
           (int64_t{head} * s.head_dim + first) * int64_t{s.state_dim};
  }
};

// At the end of a prompt's rows the ring gets the last inputs of `count` columns of the convolution
// from `first` on; space_conv has read the old ones. All threads of a block call it.
template <class T>
__device__ void keep_inputs(const SpaceLaunch& a, int sequence, int64_t first, int count) {
  const int begin = a.step.begins[sequence], end = a.step.begins[sequence + 1];
  for (int row = max(begin, end - (a.shape.taps - 1)); row < end; ++row) {
    float* to = space_state(a, sequence) +
                a.step.positions[row] % a.shape.taps * a.shape.conv_cols() + first;
    const T* from =
        static_cast<const T*>(a.in) + row * a.shape.row_numbers + a.shape.columns.mixed + first;
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = to_float(from[i]);
  }
}

}  // namespace skald::cuda
