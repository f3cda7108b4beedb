// Scores that are bent towards a cap: softcap * tanh(score / softcap), in units of log2 as kernels
// with fast exponentials keep them.
#pragma once

#include "cuda/kernels/device/mma.cuh"

namespace skald::cuda {

#if SKALD_HAS_MMA

inline constexpr float kLog2E = 1.4426950408889634f;

// tanh(x) as 1 - 2 / (1 + exp(2 x)): its error is absolute, of the size of float's unit, which is
// what counts in an exponent. The GPU's own tanh is faster and 2^11 times as rough.
__device__ inline float soft_capped(float score, float softcap) {
  const float most = softcap * kLog2E;
  return most - __fdividef(2 * most, 1 + exp2_fast(score * __fdividef(2, softcap)));
}

#endif

}  // namespace skald::cuda
