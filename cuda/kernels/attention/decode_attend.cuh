// Softmax over the tokens of a warp of attention_decode, and the weighted sum of their values.
// Scores are K · Qᵀ and output is Vᵀ · Pᵀ, so that tokens or dimensions fill the 16 rows of mma()
// and heads its 8 columns. Lane = 4 * g + c.
#pragma once

#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/softcap.cuh"
#include "cuda/kernels/device/mma.cuh"

namespace skald::cuda {

#if SKALD_HAS_MMA

__device__ inline uint32_t word(const uint4& x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

template <class T, int kDim, int kStrips, int kStep>
struct Attended {
  // Heads 2 c and 2 c + 1. The total is over this lane's tokens alone.
  float maximum[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  // [j][e]: dimensions 64 j + 8 g + 2 e and the next, two heads each
  float out[kDim / 64][4][4] = {};

  // Scores of a strip's tokens g, g, g + 8, g + 8 with heads 2 c, 2 c + 1, 2 c, 2 c + 1. `q`: head
  // g, dimensions 32 j + 8 c and the next 7.
  static __device__ void score(float (&scores)[4], const uint4 (&k)[kDim / 32][2],
                               const uint4 (&q)[kDim / 32]) {
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) {
      const uint4 &k0 = k[j][0], &k1 = k[j][1];
      mma(T(), scores, {k0.x, k1.x, k0.y, k1.y}, q[j].x, q[j].y);
      mma(T(), scores, {k0.z, k1.z, k0.w, k1.w}, q[j].z, q[j].w);
    }
  }

  // Replaces scores by softmax weights. The first strip begins with `token`. Tokens outside [start,
  // end) get the weight 0.
  __device__ void weigh(float (&scores)[kStrips][4], int token, int start, int end, float scale,
                        float softcap) {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
#pragma unroll
      for (float& x : scores[i]) x *= scale;
    }
    if (softcap != 0) {
#pragma unroll
      for (int i = 0; i < kStrips; ++i) {
#pragma unroll
        for (float& x : scores[i]) x = soft_capped(x, softcap);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float higher = maximum[h];
#pragma unroll
      for (int i = 0; i < kStrips; ++i) {
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          const int at = token + i * kStep + g + 8 * t;
          float& x = scores[i][2 * t + h];
          if (at < start || at >= end) x = -INFINITY;
          higher = fmaxf(higher, x);
        }
      }
#pragma unroll
      for (int lanes = 4; lanes < 32; lanes *= 2) {
        higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, lanes));
      }
      const float keep = exp2_fast(maximum[h] - higher);
      maximum[h] = higher;
      total[h] *= keep;
#pragma unroll
      for (int i = 0; i < kStrips; ++i) {
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          float& x = scores[i][2 * t + h];
          x = exp2_fast(x - higher);
          total[h] += x;
        }
      }
#pragma unroll
      for (int j = 0; j < kDim / 64; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          out[j][e][h] *= keep;
          out[j][e][2 + h] *= keep;
        }
      }
    }
  }

  // Adds a strip's values, times their weights. `v`: tokens 2 c, 2 c + 1, 2 c + 8, 2 c + 9,
  // dimensions 64 j + 8 g and the next 7.
  __device__ void add_values(int j, const uint4 (&v)[4], uint32_t weights0, uint32_t weights1) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const uint32_t v0 = word(v[0], e), v1 = word(v[1], e);
      const uint32_t v2 = word(v[2], e), v3 = word(v[3], e);
      mma(T(), out[j][e],
          {__byte_perm(v0, v1, 0x5410), __byte_perm(v0, v1, 0x7632), __byte_perm(v2, v3, 0x5410),
           __byte_perm(v2, v3, 0x7632)},
          weights0, weights1);
    }
  }

  // Adds up the totals over all lanes' tokens.
  __device__ void finish() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int lanes = 4; lanes < 32; lanes *= 2) total[h] += __shfl_xor_sync(~0u, total[h], lanes);
    }
  }
};

#endif

}  // namespace skald::cuda
