// What the rings of a warp of attention_decode share (decode_ring.cuh, decode_codes.cuh): the
// turns, the pages, the barriers. The keys and the values of each strip have a slot of kHalf bytes.
#pragma once

#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/decode_run.cuh"
#include "cuda/kernels/device/ptx.cuh"

namespace skald::cuda {

// Derived has fetch(which, first): one lane starts the copies of the keys (0) or values (1) of the
// turn that begins with the token `first`, if the cache has that token.
template <class Derived, class T, int kHalf, int kStrips, int kStep>
struct WarpRing {
  static constexpr int kWarpBytes = kStrips * 2 * kHalf;
  static constexpr int kTurn = kStrips * kStep;
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
  __device__ WarpRing(const DecodeRun<T>& tokens, int first, char* memory, Barriers* own)
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

  __device__ void next_keys() {
    __syncwarp();
    if (lane() == 0) fetch(0, token + kTurn);
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

 protected:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ char* half(int strip, int which) const { return data + (strip * 2 + which) * kHalf; }
  __device__ void await_keys(int strip) const {
    if (strip == 0 && token < run.cached_end) barrier_wait(&barriers->keys, lap);
  }
  __device__ void await_values(int strip, int j) const {
    if (strip == 0 && j == 0 && token < run.cached_end) barrier_wait(&barriers->values, lap);
  }

 private:
  __device__ void fetch(int which, int first) const {
    static_cast<const Derived*>(this)->fetch(which, first);
  }
  __device__ void find_pages(int first) {
#pragma unroll
    for (int i = 0; i < kStrips; ++i) page[i] = run.page_at(first + i * kStep);
  }
};

}  // namespace skald::cuda
