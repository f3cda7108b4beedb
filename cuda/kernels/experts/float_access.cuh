// Loads from rows of floats, one or four numbers at a time. They bypass the L1 cache, which may
// hold numbers from before the kernel ahead ran.
#pragma once

#include "cuda/kernels/device/number.cuh"

namespace skald::cuda {

template <int kVec>
__device__ Pack<float, kVec> load(const float* row, int64_t at) {
  Pack<float, kVec> some;
  if constexpr (kVec == 1) {
    some.x[0] = __ldcg(row + at);
  } else {
    *reinterpret_cast<float4*>(&some) = __ldcg(reinterpret_cast<const float4*>(row) + at);
  }
  return some;
}

}  // namespace skald::cuda
