// A sink: a score of a query head that joins the softmax and has no value.
#pragma once

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/softcap.cuh"

namespace skald::cuda {

#if SKALD_HAS_MMA

// What the sink of `head` adds to the sum of weights 2^(score * kLog2E - highest). A kernel adds it
// once, when it has all of a row's tokens. If the sink is far above all scores the result is
// infinite, and the row's output is zero, the limit.
__device__ inline float sink_weight(const AttentionLaunch& a, int head, float highest) {
  return a.sinks ? exp2_fast(a.sinks[head] * kLog2E - highest) : 0;
}

#endif

}  // namespace skald::cuda
