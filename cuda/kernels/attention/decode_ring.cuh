// Strips as in decode_strip.cuh, but each warp has a ring in shared memory that bulk copies fill
// (sm_90). That keeps many more bytes in flight than registers can hold, or than the L1 cache has
// room for when decode kernels take all of its memory as shared memory.
//
// The rows of tokens lie as in memory. Reads have bank conflicts of two lanes (keys) and of four
// (values). At the memory's speed that keeps shared memory busy for half of the time.
#pragma once

#include "cuda/kernels/attention/warp_ring.cuh"

namespace skald::cuda {

// For heads of kDim dimensions.
template <class T, int kDim, int kStrips, int kStep>
struct StripsInRing : WarpRing<StripsInRing<T, kDim, kStrips, kStep>, T,
                               kStrip * kDim* int{sizeof(T)}, kStrips, kStep> {
  using Ring = WarpRing<StripsInRing, T, kStrip * kDim* int{sizeof(T)}, kStrips, kStep>;
  using Ring::await_keys, Ring::await_values, Ring::barriers, Ring::half, Ring::lane, Ring::page,
      Ring::policy, Ring::run, Ring::token;
  using Ring::Ring;
  static constexpr int kRowBytes = kDim * int{sizeof(T)};
  static constexpr bool kCodes = false;
  using Number = T;

  static __device__ int dim(int j, int c) { return 32 * j + 8 * c; }
  using Keys = uint4[kDim / 32][2];
  __device__ Keys& keys(int strip, Keys& to) {
    await_keys(strip);
    const char* rows = half(strip, 0) + lane() / 4 * kRowBytes + lane() % 4 * 16;
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        to[j][i] = *reinterpret_cast<const uint4*>(rows + 8 * i * kRowBytes + 64 * j);
      }
    }
    return to;
  }
  using Values = uint4[4];
  __device__ Values& values(int strip, int j, Values& to) {
    await_values(strip, j);
    const int g = lane() / 4, c = lane() % 4, at = token + strip * kStep;
    const char* rows = half(strip, 1) + 2 * c * kRowBytes + 128 * j + 16 * g;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[i] = *reinterpret_cast<const uint4*>(rows + (i % 2 + 8 * (i / 2)) * kRowBytes);
    }
    if (at + kStrip > run.cached_end) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (at + 2 * c + i % 2 + 8 * (i / 2) >= run.cached_end) to[i] = {0, 0, 0, 0};
      }
    }
    return to;
  }
  __device__ void fetch(int which, int first) const {
    if (first >= run.cached_end) return;
    uint64_t* barrier = which == 0 ? &barriers->keys : &barriers->values;
    int tokens[kStrips], all = 0;
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      tokens[i] = min(max(run.cached_end - first - i * kStep, 0), kStrip);
      all += tokens[i];
    }
    barrier_expect_bytes(barrier, all * kRowBytes);
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      if (tokens[i] == 0) continue;
      const T* keys = run.keys_at(first + i * kStep, page[i]);
      bulk_copy(half(i, which), keys + which * keys_to_values(run.a.spec), tokens[i] * kRowBytes,
                barrier, policy);
    }
  }
};

}  // namespace skald::cuda
