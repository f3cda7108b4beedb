// Where a layer's keys and values lie in a page of the KV cache. Kernels parse this header.
#pragma once

#include <cstdint>

#include "engine/memory/page_tokens.h"
#include "engine/quant/cache_type.h"

namespace skald {

// The keys, or the values, of one layer in a page: the codes, [kv_heads, kPageTokens, head_dim],
// then, for types that has_scales(), the f16 scales, [kv_heads, kPageTokens, head_dim /
// kCacheBlock]. Codes and scales lie apart, so that a GPU can read both in aligned pieces. Offsets
// and sizes are in bytes, from the first code. All sizes are multiples of 64 bytes.
struct CacheHalf {
  CacheType type;
  int kv_heads;
  int head_dim;  // a multiple of kCacheBlock if has_scales(type)

  SKALD_HD constexpr int64_t row_bytes() const {  // codes of a token's head
    return int64_t{head_dim} * code_bits(type) / 8;
  }
  SKALD_HD constexpr int64_t scale_bytes() const {  // scales of a token's head
    return has_scales(type) ? int64_t{head_dim} / kCacheBlock * 2 : 0;
  }
  SKALD_HD constexpr int64_t codes_at(int64_t head, int64_t token) const {
    return (head * kPageTokens + token) * row_bytes();
  }
  SKALD_HD constexpr int64_t scales_at(int64_t head, int64_t token) const {
    return codes_at(kv_heads, 0) + (head * kPageTokens + token) * scale_bytes();
  }
  SKALD_HD constexpr int64_t bytes() const { return scales_at(kv_heads, 0); }
};

// One layer in a page: the keys, then the values.
struct LayerCache {
  CacheHalf keys, values;

  SKALD_HD constexpr LayerCache(const CacheTypes& types, int kv_heads, int head_dim)
      : keys{types.keys, kv_heads, head_dim}, values{types.values, kv_heads, head_dim} {}

  SKALD_HD constexpr int64_t values_at() const { return keys.bytes(); }
  SKALD_HD constexpr int64_t bytes() const { return keys.bytes() + values.bytes(); }
};

}  // namespace skald
