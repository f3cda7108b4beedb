// Strips: the keys and values of 16 tokens, loaded from memory straight into the registers of mma()
// (mma.cuh). Lane = 4 * g + c.
//
// A warp of attention_decode takes kStrips strips in a turn, kStep tokens apart. keys() gives a
// turn's keys; then next_keys() starts to load the next turn's keys. Values work the same way.
// decode_ring.cuh has the same functions for a ring.
#pragma once

#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/decode_run.cuh"
#include "cuda/kernels/device/mma.cuh"

namespace skald::cuda {

template <class T, int kDim, bool kExact, int kStrips, int kStep>
struct StripsInRegisters {
  static constexpr int kWarpBytes = 0;  // bytes of shared memory
  static constexpr int kTurn = kStrips * kStep;
  static constexpr bool kCodes = false;
  using Number = T;
  struct Barriers {};

  const DecodeRun<T>& run;
  int token;  // the first of the turn
  uint4 k[kStrips][kDim / 32][2];
  uint4 v[kStrips][kDim / 64][4];
  int page[kStrips];  // pages of the next turn

  __device__ StripsInRegisters(const DecodeRun<T>& tokens, int first, char*, Barriers*)
      : run(tokens), token(first) {
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      const int at = token + i * kStep;
      const T* keys = run.keys_at(at, run.page_at(at));
      load_keys(i, at, keys);
      load_values(i, at, keys);
      page[i] = run.page_at(at + kTurn);
    }
  }

  // Returns registers of this struct. (decode_ring.cuh fills the caller's registers and returns
  // those.) [j][i]: token g + 8 i of the strip, dimensions 32 j + 8 c and the next 7.
  static __device__ int dim(int j, int c) { return 32 * j + 8 * c; }
  using Keys = uint4[kDim / 32][2];
  __device__ Keys& keys(int strip, Keys&) { return k[strip]; }
  __device__ void next_keys() {
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      const int at = token + kTurn + i * kStep;
      if (at < run.cached_end) load_keys(i, at, run.keys_at(at, page[i]));
    }
  }
  // [i]: token 2 c + i % 2 + 8 (i / 2) of the strip, dimensions 64 j + 8 g and the next 7. A token
  // that is not in the cache has zeros, or the values of another token.
  using Values = uint4[4];
  __device__ Values& values(int strip, int j, Values&) { return v[strip][j]; }
  __device__ void next_values() {
    token += kTurn;
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      const int at = token + i * kStep;
      if (at < run.cached_end) load_values(i, at, run.keys_at(at, page[i]));
      page[i] = run.page_at(at + kTurn);
    }
  }

 private:
  __device__ bool read(int at) const { return at >= run.start && at < run.cached_end; }
  __device__ void load_keys(int strip, int at, const T* keys) {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int t = g + 8 * i;
        k[strip][j][i] =
            load8<kExact>(keys + t * run.head_dim, 32 * j + 8 * c, run.head_dim, read(at + t));
      }
    }
  }
  __device__ void load_values(int strip, int at, const T* keys) {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
    const T* values = keys + keys_to_values(run.a.spec);
#pragma unroll
    for (int j = 0; j < kDim / 64; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int t = 2 * c + i % 2 + 8 * (i / 2);
        v[strip][j][i] =
            load8<kExact>(values + t * run.head_dim, 64 * j + 8 * g, run.head_dim, read(at + t));
      }
    }
  }
};

}  // namespace skald::cuda
