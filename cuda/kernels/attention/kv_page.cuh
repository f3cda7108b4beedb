// The addresses of a token's keys and values in a paged cache, the heads of a row of qkv, the
// rotation of pairs, and loads of 8 numbers that stop at the end of a head.
#pragma once

#include <cstddef>

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/device/number.cuh"
#include "engine/memory/page_tokens.h"

namespace skald::cuda {

// The keys of one KV head in one page, [kPageTokens, head_dim].
template <class T>
__device__ inline T* page_keys(const AttentionLaunch& a, int page, int kv_head) {
  return reinterpret_cast<T*>(static_cast<char*>(a.cache.data) + page * a.cache.page_stride) +
         int64_t{kv_head} * kPageTokens * a.spec.head_dim;
}
// A page of the cache of codes.
__device__ inline std::byte* coded_page(const AttentionLaunch& a, int page) {
  return static_cast<std::byte*>(a.coded.data) + page * a.coded.page_stride;
}
// The distance from a token's keys to its values.
__device__ inline int64_t keys_to_values(const AttentionSpec& s) {
  return int64_t{s.kv_heads} * kPageTokens * s.head_dim;
}

__device__ inline const int32_t* pages_of(const AttentionLaunch& a, int row) {
  return a.step.page_table + int64_t{a.step.sequences[row]} * a.step.pages_per_sequence;
}

// The heads that lie side by side in a row of qkv, and the first head of v among them.
__device__ inline int row_heads(const AttentionLaunch& a) {
  if (!a.appends) return a.spec.heads;
  return a.spec.heads + a.spec.kv_heads * (a.values_are_keys || a.spec.keys_serve ? 1 : 2);
}
__device__ inline int first_value_head(const AttentionLaunch& a) {
  return a.spec.heads + (a.values_are_keys ? 0 : a.spec.kv_heads);
}

// True if attention_decode finds a row's new key and value in qkv, and not yet in the cache.
__device__ inline bool brings_new(const AttentionLaunch& a) {
  return a.appends && !a.decode.after_append;
}

// The first position that a query at `position` sees.
__device__ inline int window_start(const AttentionSpec& s, int position) {
  return s.window > 0 && position >= s.window ? position - s.window + 1 : 0;
}

struct Rotation {
  float cos, sin;
};

// position * inv_freq is rounded to float before anything else, as on the CPU.
__device__ inline Rotation rotation(const AttentionLaunch& a, int position, int pair) {
  Rotation r;
  sincosf(__fmul_rn(static_cast<float>(position), a.inv_freq[pair]), &r.sin, &r.cos);
  return {r.cos * a.rope_scale, r.sin * a.rope_scale};
}

// The pair of an element, and the index of its partner in the head.
struct RopePair {
  int pair;  // -1: not rotated
  int partner;
  bool first;
};
__device__ inline RopePair rope_pair(int i, int pairs, bool interleaved) {
  if (i >= 2 * pairs) return {-1, i, true};
  if (interleaved) return {i / 2, i ^ 1, i % 2 == 0};
  const bool first = i < pairs;
  return {first ? i : i - pairs, first ? i + pairs : i - pairs, first};
}

// Loads elements [dim, dim + 8) of a head of 16-bit numbers; zeros beyond head_dim or if not
// `valid`. kExact: dim + 8 <= head_dim, and rows are 16-byte aligned. Else rows are 4-byte aligned.
template <bool kExact, class T>
__device__ inline uint4 load8(const T* head, int dim, int head_dim, bool valid) {
  uint4 x = {0, 0, 0, 0};
  if constexpr (kExact) {
    if (valid) x = *reinterpret_cast<const uint4*>(head + dim);
  } else if (head_dim % 8 == 0) {
    if (valid && dim < head_dim) x = *reinterpret_cast<const uint4*>(head + dim);
  } else {
    const uint32_t* pairs = reinterpret_cast<const uint32_t*>(head + dim);
    if (valid && dim < head_dim) x.x = pairs[0];
    if (valid && dim + 2 < head_dim) x.y = pairs[1];
    if (valid && dim + 4 < head_dim) x.z = pairs[2];
    if (valid && dim + 6 < head_dim) x.w = pairs[3];
  }
  return x;
}

}  // namespace skald::cuda
