// Floats as the sum of two bf16 numbers, for products on tensor cores that keep 16 bits of them.
#pragma once

#include "cuda/kernels/device/mma.cuh"

#if SKALD_HAS_MMA

namespace skald::cuda {

// Two floats as two pairs of bf16 numbers whose sums they are, up to 2^-17.
struct Bf16Pairs {
  uint32_t high, low;
};
__device__ inline Bf16Pairs bf16_pairs(float x, float y) {
  const uint32_t high = pack(Bf16(), x, y);
  return {high,
          pack(Bf16(), x - __uint_as_float(high << 16), y - __uint_as_float(high & 0xffff0000u))};
}

}  // namespace skald::cuda

#endif
