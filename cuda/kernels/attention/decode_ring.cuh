// Strips as in decode_strip.cuh, but each warp has a ring in shared memory that bulk copies fill
// (sm_90). That keeps many more bytes in flight than registers can hold, or than the L1 cache has
// room for when decode kernels take all of its memory as shared memory.
//
// The rows of tokens lie as in memory. Reads have bank conflicts of two lanes (keys) and of four
// (values). At the memory's speed that keeps shared memory busy for half of the time.
#pragma once

#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/decode_run.cuh"
#include "cuda/kernels/device/ptx.cuh"

namespace skald::cuda {

// For heads of kDim dimensions.
template <class T, int kDim, int kStrips, int kStep>
struct StripsInRing {
  static constexpr int kRowBytes = kDim * int{sizeof(T)}, kHalf = kStrip * kRowBytes;
  static constexpr int kWarpBytes = kStrips * 2 * kHalf;
  static constexpr int kTurn = kStrips * kStep;
  static constexpr bool kCodes = false;
  using Number = T;
  struct Barriers {
    uint64_t keys, values;
  };

  const DecodeRun<T>& run;
  int token;  // the first of the turn
  char* data;
  Barriers* barriers;
  uint64_t policy;
  unsigned lap = 0;
  int page[kStrips];  // pages of the turn to fetch next; in lane 0

  // `memory`: kWarpBytes, aligned to 128.
  __device__ StripsInRing(const DecodeRun<T>& tokens, int first, char* memory, Barriers* own)
      : run(tokens), token(first), data(memory), barriers(own), policy(evict_first_policy()) {
    if (lane() == 0) {
      barrier_init(&barriers->keys, 1);
      barrier_init(&barriers->values, 1);
      barrier_init_fence();
      find_pages(token);
      fetch(0, token);
      fetch(1, token);
      find_pages(token + kTurn);
    }
    __syncwarp();
  }

  static __device__ int dim(int j, int c) { return 32 * j + 8 * c; }
  using Keys = uint4[kDim / 32][2];
  __device__ Keys& keys(int strip, Keys& to) {
    if (strip == 0 && token < run.cached_end) barrier_wait(&barriers->keys, lap);
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
  __device__ void next_keys() {
    __syncwarp();
    if (lane() == 0) fetch(0, token + kTurn);
  }
  using Values = uint4[4];
  __device__ Values& values(int strip, int j, Values& to) {
    if (strip == 0 && j == 0 && token < run.cached_end) barrier_wait(&barriers->values, lap);
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
  __device__ void next_values() {
    __syncwarp();
    token += kTurn;
    lap ^= 1;
    if (lane() == 0 && token < run.cached_end) {
      fetch(1, token);
      find_pages(token + kTurn);
    }
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ char* half(int strip, int which) const { return data + (strip * 2 + which) * kHalf; }
  __device__ void find_pages(int first) {
#pragma unroll
    for (int i = 0; i < kStrips; ++i) page[i] = run.page_at(first + i * kStep);
  }
  // Fetches the keys (0) or values (1) of the turn that begins at `first`. For lane 0.
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
