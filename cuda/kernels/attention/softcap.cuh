// Soft-capped scores: softcap * tanh(score / softcap), in units of log2, in which kernels with fast
// exponentials keep scores.
#pragma once

#include "cuda/kernels/device/mma.cuh"

namespace skald::cuda {

#if SKALD_HAS_MMA

inline constexpr float kLog2E = 1.4426950408889634f;

// tanh(x) as 1 - 2 / (1 + exp(2 x)). Its absolute error is that of a float near 1, and in an
// exponent the absolute error counts. The GPU's own tanh is faster, and its error is 2^11 times as
// large.
__device__ inline float soft_capped(float score, float softcap) {
  const float most = softcap * kLog2E;
  return most - __fdividef(2 * most, 1 + exp2_fast(score * __fdividef(2, softcap)));
}

#endif

}  // namespace skald::cuda
