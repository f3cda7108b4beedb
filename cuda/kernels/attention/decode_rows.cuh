// The rows of qkv that a block of attention_decode needs: its queries and, if the block has the new
// token, the new key and value. They are normed and rotated as the launch says.
#pragma once

#include <climits>
#include <type_traits>

#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/kv_page.cuh"
#include "cuda/kernels/device/math.cuh"

namespace skald::cuda {

struct DecodeBlock {
  int row, kv_head;
  int group;              // query heads that read the KV head
  int first_head, heads;  // the block's, in the group
  int head_dim;           // at most kDim
  bool has_new;           // whether the block has the new token
};

// In shared memory. All kThreads threads of a block call each function together. kCodes: the cache
// has codes, and products are of f16; a new key and value that the cache has already are not read.
template <class T, int kDim, int kThreads, bool kCodes>
struct DecodeRows {
  using Number = std::conditional_t<kCodes, Half, T>;
  static constexpr int kKey = kTileHeads, kValue = kTileHeads + 1;
  static constexpr int kPairs = kDim / 2;
  static constexpr int kUnits = ((kTileHeads + 2) * kPairs + kThreads - 1) / kThreads;

  alignas(
      16) Number x[kTileHeads + 2][kDim];  // queries, with zeros beyond them; new key; new value
  Rotation rotations[kPairs];
  float norms[2][kDim];                        // weights for queries, for keys
  float squares[kTileHeads + 2][kPairs / 32];  // sums of squares of each vector, in parts
  float growth;                                // factor of the queries

  int places_found;  // see prepare(); nobody reads it

  // Indices in qkv of the numbers of a thread's pairs; -1 stands for zeros. Where the cache
  // has the new token, the new key and value are in the cache: indices from the new key on.
  struct Places {
    int first[kUnits], second[kUnits];
  };

  // Does what does not depend on the kernel ahead. Synchronizes the block before it returns.
  __device__ Places prepare(const AttentionLaunch& a, const DecodeBlock& b, int position) {
    for (int i = threadIdx.x; i < a.rope_pairs; i += kThreads) {
      rotations[i] = rotation(a, position, i);
    }
    if (threadIdx.x == 0) growth = a.spec.growth.at(position);
    for (int i = b.heads * kDim + threadIdx.x; i < kTileHeads * kDim; i += kThreads) {
      x[0][i] = Number(0.0f);
    }
    if (a.q_norm) {
      for (int i = threadIdx.x; i < b.head_dim; i += kThreads) {
        norms[0][i] = a.q_norm[i];
        norms[1][i] = brings_new(a) ? a.k_norm[i] : 1;
      }
    }
    const AttentionSpec& s = a.spec;
    Places places;
    int all = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int vector = vector_of(u, b), pair = pair_of(u);
      const int head = vector < kKey    ? b.kv_head * b.group + b.first_head + vector
                       : vector == kKey ? s.heads + b.kv_head
                                        : first_value_head(a) + b.kv_head;
      int start = (b.row * row_heads(a) + head) * b.head_dim;
      // Without a new key in qkv: `start` counts from the row's key in the cache.
      if (!brings_new(a) && vector >= kKey) {
        start = vector == kKey ? 0 : static_cast<int>(keys_to_values(s));
      }
      const int2 at = place_of(a, pair);
      const bool absent = kCodes && !brings_new(a) && vector >= kKey;
      const bool real = vector <= kValue && 2 * pair < b.head_dim && !absent;
      places.first[u] = real ? start + at.x : -1;
      places.second[u] = real ? start + at.y : -1;
      all ^= places.first[u] ^ places.second[u];
    }
    // Makes the compiler compute the places here. Otherwise it would move the computation behind
    // the wait, and the block would be 150 instructions slower there. `all` never has this value.
    if (all == INT_MAX) *const_cast<volatile int*>(&places_found) = all;
    __syncthreads();
    return places;
  }

  // Loads, norms and rotates. `slot`: the place of the new key in the cache, if the launch does not
  // append. Synchronizes the block before it returns.
  __device__ void fill(const AttentionLaunch& a, const DecodeBlock& b, const Places& places,
                       const T* slot) {
    const T* rows = static_cast<const T*>(a.qkv);
    // All loads of a thread are in flight before the first number is used.
    T first[kUnits], second[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) first[u] = second[u] = T(0.0f);
    if (brings_new(a)) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        if (places.first[u] >= 0) {
          first[u] = rows[places.first[u]];
          second[u] = rows[places.second[u]];
        }
      }
    } else {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        if (places.first[u] >= 0) {
          // Past the L1 cache: an earlier kernel of this step has written the new key and value.
          const T* from = vector_of(u, b) < kKey ? rows : slot;
          first[u] = __ldcg(from + places.first[u]);
          second[u] = __ldcg(from + places.second[u]);
        }
      }
    }
    if (a.q_norm) {
      // A warp's numbers belong to one vector.
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const float p = to_float(first[u]), q = to_float(second[u]);
        const float sum = warp_sum(p * p + q * q);
        const int vector = vector_of(u, b);
        if (threadIdx.x % 32 == 0 && vector <= kValue) squares[vector][pair_of(u) / 32] = sum;
      }
      __syncthreads();
    }
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int vector = vector_of(u, b), pair = pair_of(u);
      if (vector > kValue) break;
      const int2 at = place_of(a, pair);
      const auto norm_of = [&] {
        float sum = 0;
#pragma unroll
        for (float part : squares[vector]) sum += part;
        return rsqrtf(sum / static_cast<float>(b.head_dim) + a.norm_eps);
      };
      if (vector != kValue && (a.q_norm || pair < a.rope_pairs) &&
          (brings_new(a) || vector < kKey)) {
        float p = to_float(first[u]), q = to_float(second[u]);
        float p_factor = vector < kKey ? growth : 1, q_factor = p_factor;  // after the rotation
        if (a.q_norm && 2 * pair < b.head_dim) {
          const float norm = norm_of();
          const float* weight = norms[vector == kKey];
          p *= norm * (a.norm_after_rope ? 1 : weight[at.x]);
          q *= norm * (a.norm_after_rope ? 1 : weight[at.y]);
          if (a.norm_after_rope) {
            p_factor *= weight[at.x];
            q_factor *= weight[at.y];
          }
        }
        const Rotation r = pair < a.rope_pairs ? rotations[pair] : Rotation{1, 0};
        first[u] = from_float<T>((p * r.cos - q * r.sin) * p_factor);
        second[u] = from_float<T>((q * r.cos + p * r.sin) * q_factor);
      }
      if (vector == kValue && a.v_norm && brings_new(a)) {
        const float norm = norm_of();
        first[u] = from_float<T>(to_float(first[u]) * norm);
        second[u] = from_float<T>(to_float(second[u]) * norm);
      }
      x[vector][at.x] = number_of(first[u]);
      x[vector][at.y] = number_of(second[u]);
    }
    __syncthreads();
  }

  // Puts the new key into what a warp has of a strip (decode_strip.cuh), if the new token is the
  // strip's `at`-th. put_value() does the same for the value.
  template <class Source>
  __device__ void put_key(uint4 (&k)[kDim / 32][2], int at) const {
    if (at < 0 || at >= kStrip) return;
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (g + 8 * i != at) continue;
#pragma unroll
      for (int j = 0; j < kDim / 32; ++j) {
        k[j][i] = *reinterpret_cast<const uint4*>(&x[kKey][Source::dim(j, c)]);
      }
    }
  }
  __device__ void put_value(uint4 (&v)[4], int j, int at) const {
    if (at < 0 || at >= kStrip) return;
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (2 * c + i % 2 + 8 * (i / 2) != at) continue;
      v[i] = *reinterpret_cast<const uint4*>(&x[kValue][64 * j + 8 * g]);
    }
  }

  // Stores the new key and value in the cache. `slot` is the place of the key.
  __device__ void store_new(const AttentionLaunch& a, const DecodeBlock& b, T* slot) const {
#pragma unroll 1
    for (int i = threadIdx.x; i < b.head_dim; i += kThreads) {
      slot[i] = x[kKey][i];
      slot[keys_to_values(a.spec) + i] = x[kValue][i];
    }
  }

 private:
  static __device__ Number number_of(T x) {
    if constexpr (std::is_same_v<T, Number>) {
      return x;
    } else {
      return from_float<Number>(to_float(x));
    }
  }
  // A thread's u-th pair belongs to one of the block's queries or, if the block has the new token,
  // to the new key or value.
  static __device__ int vector_of(int u, const DecodeBlock& b) {
    const int vector = (static_cast<int>(threadIdx.x) + u * kThreads) / kPairs;
    if (vector < b.heads) return vector;
    return b.has_new ? vector - b.heads + kKey : kValue + 1;
  }
  static __device__ int pair_of(int u) {
    return (static_cast<int>(threadIdx.x) + u * kThreads) % kPairs;
  }
  static __device__ int2 place_of(const AttentionLaunch& a, int pair) {
    const bool split = !a.rope_interleaved && pair < a.rope_pairs;
    return split ? int2{pair, pair + a.rope_pairs} : int2{2 * pair, 2 * pair + 1};
  }
};

}  // namespace skald::cuda
