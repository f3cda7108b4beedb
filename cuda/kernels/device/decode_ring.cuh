// Strips as in decode_strip.cuh, that come to each warp's own ring in shared memory by bulk copies
// (sm_90): many more bytes on their way than registers hold, and than the L1 cache has room for
// when decode kernels have all of its memory as shared memory.
//
// Rows of tokens lie as in memory. Reading them has conflicts of two (keys) and four (values) lanes
// for a bank, which at the memory's speed keeps shared memory busy for half of the time.
#pragma once

#include "cuda/kernels/attention_split.h"
#include "cuda/kernels/device/decode_run.cuh"
#include "cuda/kernels/device/ptx.cuh"

namespace skald::cuda {

// For heads of kDim dimensions.
template <class T, int kDim, int kStrips, int kStep, int kSlots>
struct StripsInRing {
  static constexpr int kRowBytes = kDim * int{sizeof(T)}, kHalf = kStrip * kRowBytes;
  static constexpr int kWarpBytes = kSlots * kStrips * 2 * kHalf;
  static constexpr int kTurn = kStrips * kStep;
  struct Barriers {
    uint64_t keys[kSlots], values[kSlots];
  };

  const DecodeRun<T>& run;
  int token;  // the turn's first
  char* data;
  Barriers* barriers;
  uint64_t policy;
  int slot = 0;
  unsigned lap = 0;
  int page[kStrips];  // of the turn to fetch next; in lane 0

  // `memory`: kWarpBytes, aligned to 128.
  __device__ StripsInRing(const DecodeRun<T>& tokens, int first, char* memory, Barriers* own)
      : run(tokens), token(first), data(memory), barriers(own), policy(evict_first_policy()) {
    if (lane() == 0) {
      for (int s = 0; s < kSlots; ++s) {
        barrier_init(&barriers->keys[s], 1);
        barrier_init(&barriers->values[s], 1);
      }
      barrier_init_fence();
      int pages[kSlots + 1][kStrips];
#pragma unroll
      for (int s = 0; s <= kSlots; ++s) {
#pragma unroll
        for (int i = 0; i < kStrips; ++i) {
          pages[s][i] = run.page_at(token + s * kTurn + i * kStep);
        }
      }
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        fetch(s, 0, token + s * kTurn, pages[s]);
        fetch(s, 1, token + s * kTurn, pages[s]);
      }
#pragma unroll
      for (int i = 0; i < kStrips; ++i) page[i] = pages[kSlots][i];
    }
    __syncwarp();
  }

  using Keys = uint4[kDim / 32][2];
  __device__ Keys& keys(int strip, Keys& to) {
    if (strip == 0 && token < run.cached_end) barrier_wait(&barriers->keys[slot], lap);
    const char* rows = half(slot, strip, 0) + lane() / 4 * kRowBytes + lane() % 4 * 16;
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
    if (lane() == 0) fetch(slot, 0, token + kSlots * kTurn, page);
  }
  using Values = uint4[4];
  __device__ Values& values(int strip, int j, Values& to) {
    if (strip == 0 && j == 0 && token < run.cached_end) barrier_wait(&barriers->values[slot], lap);
    const int g = lane() / 4, c = lane() % 4, at = token + strip * kStep;
    const char* rows = half(slot, strip, 1) + 2 * c * kRowBytes + 128 * j + 16 * g;
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
    if (lane() == 0) {
      const int next = token + kSlots * kTurn;
      fetch(slot, 1, next, page);
#pragma unroll
      for (int i = 0; i < kStrips; ++i) page[i] = run.page_at(next + kTurn + i * kStep);
    }
    token += kTurn;
    if (++slot == kSlots) {
      slot = 0;
      lap ^= 1;
    }
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ char* half(int s, int strip, int which) const {
    return data + ((s * kStrips + strip) * 2 + which) * kHalf;
  }
  // Keys (0) or values (1) of the turn that begins at `first`; by lane 0.
  __device__ void fetch(int s, int which, int first, const int (&pages)[kStrips]) const {
    int tokens[kStrips], all = 0;
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      tokens[i] = min(max(run.cached_end - first - i * kStep, 0), kStrip);
      all += tokens[i];
    }
    if (all == 0) return;
    uint64_t* barrier = which == 0 ? &barriers->keys[s] : &barriers->values[s];
    barrier_expect_bytes(barrier, all * kRowBytes);
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      if (tokens[i] == 0) continue;
      const T* keys = run.keys_at(first + i * kStep, pages[i]);
      bulk_copy(half(s, i, which), keys + which * keys_to_values(run.a.spec), tokens[i] * kRowBytes,
                barrier, policy);
    }
  }
};

}  // namespace skald::cuda
