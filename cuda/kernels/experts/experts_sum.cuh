#pragma once

namespace skald::cuda {

// Adds an expert's result to the sum of a row's experts. An expert of weight 0 adds nothing, even
// if its result is infinite: if the CPU computes an expert, the GPU has the result of another one
// there.
__device__ inline float add_expert(float weight, float result, float sum) {
  return weight == 0 ? sum : fmaf(weight, result, sum);
}

}  // namespace skald::cuda
