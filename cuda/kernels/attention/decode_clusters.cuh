// Merges the partial results that clusters of decode attention have stored in the workspace.
#pragma once

#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/partial.cuh"

namespace skald::cuda {

// Adds the results of every `step`-th cluster for one unit, with several loads in flight.
template <int kDim>
__device__ void add_clusters(Partial& p, const float* parts, int unit, int first, int step,
                             int clusters) {
  constexpr int kAtOnce = 8;
#pragma unroll 1
  for (int at = first; at < clusters; at += kAtOnce * step) {
    float4 sums[kAtOnce];
    float2 weights[kAtOnce];
    float higher = p.highest;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int cluster = at + i * step;
      if (cluster >= clusters) break;
      const float* from = parts + cluster * kPartFloats * kDim;
      sums[i] = __ldcg(reinterpret_cast<const float4*>(from) + unit);
      weights[i] = __ldcg(reinterpret_cast<const float2*>(from + kTileHeads * kDim) + unit);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (at + i * step < clusters) higher = fmaxf(higher, weights[i].x);
    }
    p.raise(higher);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (at + i * step < clusters)
        p.add_scaled(sums[i], weights[i].y, Partial::factor(weights[i].x, higher));
    }
  }
}

}  // namespace skald::cuda
