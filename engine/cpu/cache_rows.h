// How both kernel sets find keys and values in a layer's cache, and append a row to it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/base/hadamard.h"
#include "engine/cpu/kernels.h"
#include "engine/memory/cache_layout.h"
#include "engine/quant/cache_row.h"

namespace skald::cpu {

enum class Half : uint8_t { Keys, Values };

inline CacheType type_of(const KvCacheView& cache, Half half) {
  return half == Half::Keys ? cache.types.keys : cache.types.values;
}

// A head's keys or values from a position on, up to the end of the position's page.
inline CacheBytes<std::byte> cache_bytes(const AttentionArgs& a, const AttentionRow& row, Half half,
                                         int64_t head, int64_t position) {
  const LayerCache layer(a.cache.types, a.spec.kv_heads, a.spec.head_dim);
  const auto page = static_cast<size_t>(position / kPageTokens);
  const bool keys = half == Half::Keys;
  const CacheHalf& own = keys ? layer.keys : layer.values;
  std::byte* const from =
      a.cache.data + row.pages[page] * a.cache.page_stride + (keys ? 0 : layer.values_at());
  const int64_t token = position % kPageTokens;
  return {from + own.codes_at(head, token), from + own.scales_at(head, token)};
}

// Appends the keys and values of row `r` by calls of encode(type, head, bytes), where head has
// head_dim numbers. `scratch` has room for as many.
template <class Encode>
void append_row(const AttentionArgs& a, int64_t r, float* scratch, const Encode& encode) {
  const int64_t head_dim = a.spec.head_dim;
  for (const Half half : {Half::Keys, Half::Values}) {
    const CacheType type = type_of(a.cache, half);
    const float* from = (half == Half::Keys ? a.k : a.v) + r * a.spec.kv_heads * head_dim;
    for (int64_t h = 0; h < a.spec.kv_heads; ++h, from += head_dim) {
      const float* head = from;
      if (is_rotated(type)) {
        std::copy_n(from, head_dim, scratch);
        rotate_hadamard(scratch, head_dim);
        head = scratch;
      }
      encode(type, head, cache_bytes(a, a.at[r], half, h, a.at[r].position));
    }
  }
}

}  // namespace skald::cpu
