// What a block of attention_decode takes from the step's row: its queries and, where it has the new
// token, that one's key and value, normed and rotated as the launch asks.
#pragma once

#include "cuda/kernels/attention_split.h"
#include "cuda/kernels/device/kv_page.cuh"
#include "cuda/kernels/device/math.cuh"

namespace skald::cuda {

struct DecodeBlock {
  int row, kv_head;
  int first_head, heads;  // of those that read the KV head
  int head_dim;           // at most kDim
};

// In shared memory; for all kThreads threads of a block together.
template <class T, int kDim, int kThreads>
struct DecodeRows {
  static constexpr int kKey = kTileHeads, kValue = kTileHeads + 1;
  static constexpr int kPairs = kDim / 2;

  alignas(16) T x[kTileHeads + 2][kDim];  // queries, new key, new value; zeros where there is none
  Rotation rotations[kPairs];
  float norms[2][kDim];                        // weights for queries, for keys
  float squares[kTileHeads + 2][kPairs / 32];  // of each vector, in parts

  // What does not depend on the kernel ahead.
  __device__ void prepare(const AttentionLaunch& a, int position, int head_dim) {
    for (int i = threadIdx.x; i < a.rope_pairs; i += kThreads) {
      rotations[i] = rotation(a, position, i);
    }
    if (!a.q_norm) return;
    for (int i = threadIdx.x; i < head_dim; i += kThreads) {
      norms[0][i] = a.q_norm[i];
      norms[1][i] = a.k_norm[i];
    }
  }

  // `slot`: where the new key belongs in the cache, nullptr in blocks without the new token. The
  // first block of a KV head stores it. Complete for all threads when it returns.
  __device__ void fill(const AttentionLaunch& a, const DecodeBlock& b, T* slot) {
    constexpr int kUnits = ((kTileHeads + 2) * kPairs + kThreads - 1) / kThreads;
    const AttentionSpec& s = a.spec;
    const int group = s.heads / s.kv_heads;
    const T* row =
        static_cast<const T*>(a.qkv) + int64_t{b.row} * (s.heads + 2 * s.kv_heads) * b.head_dim;
    const auto place_of = [&](int pair) {
      const bool split = !a.rope_interleaved && pair < a.rope_pairs;
      return split ? int2{pair, pair + a.rope_pairs} : int2{2 * pair, 2 * pair + 1};
    };
    // All of a thread's numbers are on their way before the first is used.
    T first[kUnits], second[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int i = threadIdx.x + u * kThreads, vector = i / kPairs, pair = i % kPairs;
      int head = b.kv_head * group + b.first_head + vector;
      if (vector >= kKey) head = s.heads + (vector - kKey) * s.kv_heads + b.kv_head;
      const bool real = vector < kKey ? vector < b.heads : slot && vector <= kValue;
      first[u] = second[u] = T(0.0f);
      if (real && 2 * pair < b.head_dim) {
        const int2 at = place_of(pair);
        first[u] = row[head * b.head_dim + at.x];
        second[u] = row[head * b.head_dim + at.y];
      }
    }
    if (a.q_norm) {
      // A warp's numbers are of one vector.
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const int i = threadIdx.x + u * kThreads, vector = i / kPairs, part = i % kPairs / 32;
        const float p = to_float(first[u]), q = to_float(second[u]);
        const float sum = warp_sum(p * p + q * q);
        if (threadIdx.x % 32 == 0 && vector <= kValue) squares[vector][part] = sum;
      }
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int i = threadIdx.x + u * kThreads, vector = i / kPairs, pair = i % kPairs;
      if (vector > kValue) break;
      const int2 at = place_of(pair);
      const bool real = 2 * pair < b.head_dim;
      if (vector != kValue && (a.q_norm || pair < a.rope_pairs)) {
        float p = to_float(first[u]), q = to_float(second[u]);
        if (a.q_norm && real) {
          float sum = 0;
#pragma unroll
          for (float part : squares[vector]) sum += part;
          const float norm = rsqrtf(sum / static_cast<float>(b.head_dim) + a.norm_eps);
          const float* weight = norms[vector == kKey];
          p *= norm * weight[at.x];
          q *= norm * weight[at.y];
        }
        const Rotation r = pair < a.rope_pairs ? rotations[pair] : Rotation{1, 0};
        first[u] = from_float<T>(p * r.cos - q * r.sin);
        second[u] = from_float<T>(q * r.cos + p * r.sin);
      }
      x[vector][at.x] = first[u];
      x[vector][at.y] = second[u];
      if (vector >= kKey && slot && b.first_head == 0 && real) {
        T* to = vector == kKey ? slot : slot + keys_to_values(s);
        to[at.x] = first[u];
        to[at.y] = second[u];
      }
    }
    __syncthreads();
  }

  // One of the products that a query's score with the new key is the sum of.
  __device__ float product(int head, int i) const {
    return to_float(x[head][i]) * to_float(x[kKey][i]);
  }
  __device__ const T* value() const { return x[kValue]; }
};

}  // namespace skald::cuda
