// A logit after bias and penalties. Each is computed in double and rounded to float, as in the
// CPU's Sampler.
#pragma once

#include <cfloat>

#include "cuda/kernels/sample/sample.h"

namespace skald::cuda {

// Masked and banned tokens stay -inf. Sums beyond the range of floats stay finite.
__device__ inline float finite_logit(double value, float before) {
  if (before < -FLT_MAX || value < -DBL_MAX) return -INFINITY;
  return static_cast<float>(fmin(fmax(value, -double{FLT_MAX}), double{FLT_MAX}));
}

// Products are not fused with additions, as on the CPU.
__device__ inline float penalized_logit(float logit, int count, const SampleRow& settings) {
  if (count == 0) return logit;
  const double repeat = settings.repeat_penalty;
  double value = logit > 0 ? double{logit} / repeat : __dmul_rn(logit, repeat);
  const double frequency = __dmul_rn(count, settings.frequency_penalty);
  value = __dsub_rn(value, __dadd_rn(frequency, settings.presence_penalty));
  return finite_logit(value, logit);
}

}  // namespace skald::cuda
