// 16 tokens' keys and values, from memory straight into the registers of mma() (mma.cuh).
#pragma once

#include "cuda/kernels/device/kv_page.cuh"
#include "cuda/kernels/device/mma.cuh"

namespace skald::cuda {

// A strip's keys and values in the registers of one warp; lane = 4 * g + c.
template <class T, int kDim, bool kExact>
struct Strip {
  uint4 k[kDim / 32][2];  // [j][i]: token g + 8 i, dimensions 32 j + 8 c and the next 7
  uint4 v[kDim / 64][4];  // [j][i]: token 2 c + i % 2 + 8 (i / 2), dimensions 64 j + 8 g and on

  // `keys` is the strip's first token; only tokens [first, end) of the strip are read.
  __device__ void load_keys(const T* keys, int head_dim, int first, int end) {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int t = g + 8 * i;
        k[j][i] =
            load8<kExact>(keys + t * head_dim, 32 * j + 8 * c, head_dim, t >= first && t < end);
      }
    }
  }
  // Token `at` from shared memory, [kDim] each.
  __device__ void put(int at, const T* key, const T* value) {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (g + 8 * i != at) continue;
#pragma unroll
      for (int j = 0; j < kDim / 32; ++j) {
        k[j][i] = *reinterpret_cast<const uint4*>(key + 32 * j + 8 * c);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (2 * c + i % 2 + 8 * (i / 2) != at) continue;
#pragma unroll
      for (int j = 0; j < kDim / 64; ++j) {
        v[j][i] = *reinterpret_cast<const uint4*>(value + 64 * j + 8 * g);
      }
    }
  }
  __device__ void load_values(const T* values, int head_dim, int first, int end) {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < kDim / 64; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int t = 2 * c + i % 2 + 8 * (i / 2);
        v[j][i] =
            load8<kExact>(values + t * head_dim, 64 * j + 8 * g, head_dim, t >= first && t < end);
      }
    }
  }
};

__device__ inline uint32_t word(const uint4& x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

}  // namespace skald::cuda
