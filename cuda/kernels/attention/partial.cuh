// The softmax-weighted sum over some of the tokens, and how two such results are merged.
#pragma once

#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/number.cuh"

namespace skald::cuda {

// Sums over some tokens for 4 dimensions of a head. `all` is the sum of the weights 2^(score -
// highest); `sum` is the sum of weights times values.
struct Partial {
  float4 sum = {0, 0, 0, 0};
  float highest = -INFINITY;
  float all = 0;

  __device__ void scale(float factor) {
    sum.x *= factor, sum.y *= factor, sum.z *= factor, sum.w *= factor;
    all *= factor;
  }
  // The factor that rescales sums with the highest score `highest` to the highest score `higher`;
  // zero if the sums have no score. There is no branch: a block runs this once and waits for every
  // instruction.
  static __device__ float factor(float highest, float higher) {
    return exp2_fast(highest - (higher == -INFINITY ? 0 : higher));
  }
  __device__ void raise(float higher) {
    scale(factor(highest, higher));
    highest = higher;
  }
  __device__ void add(Partial other) {
    const float higher = fmaxf(highest, other.highest);
    raise(higher);
    other.raise(higher);
    sum.x += other.sum.x, sum.y += other.sum.y, sum.z += other.sum.z, sum.w += other.sum.w;
    all += other.all;
  }
  __device__ void add_scaled(float4 other, float other_all, float factor) {
    sum.x += other.x * factor, sum.y += other.y * factor;
    sum.z += other.z * factor, sum.w += other.w * factor;
    all += other_all * factor;
  }
  // Merges the results of `lanes` adjacent lanes, a power of two up to 8.
  __device__ void add_lanes(int lanes) {
    float higher = highest;
#pragma unroll
    for (int i = 1; i < 8; i *= 2) {
      if (i < lanes) higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, i));
    }
    raise(higher);
#pragma unroll
    for (int i = 1; i < 8; i *= 2) {
      if (i >= lanes) break;
      sum.x += __shfl_xor_sync(~0u, sum.x, i), sum.y += __shfl_xor_sync(~0u, sum.y, i);
      sum.z += __shfl_xor_sync(~0u, sum.z, i), sum.w += __shfl_xor_sync(~0u, sum.w, i);
      all += __shfl_xor_sync(~0u, all, i);
    }
  }
};

}  // namespace skald::cuda
