#include "engine/memory/cache_layout.h"

#include "engine/quant/cache_row.h"
#include "engine/quant/dtype.h"
#include "tests/catch.h"

namespace skald {
namespace {

TEST_CASE("a page of a type has the bytes of the format, in aligned halves") {
  constexpr std::pair<CacheType, DType> kSame[] = {
      {CacheType::F32, DType::F32},   {CacheType::F16, DType::F16},
      {CacheType::BF16, DType::BF16}, {CacheType::Q8_0, DType::Q8_0},
      {CacheType::Q4_0, DType::Q4_0},
  };
  for (const int head_dim : {32, 64, 96, 128, 256, 576}) {
    for (const int kv_heads : {1, 2, 5, 8}) {
      CAPTURE(head_dim, kv_heads);
      for (const auto& [type, format] : kSame) {
        const CacheHalf half{type, kv_heads, head_dim};
        CHECK(half.bytes() == row_bytes(format, int64_t{kv_heads} * kPageTokens * head_dim));
      }
      const CacheHalf fp8{CacheType::FP8, kv_heads, head_dim};
      CHECK(fp8.bytes() == int64_t{kv_heads} * kPageTokens * head_dim);
      for (const CacheType keys : all_cache_types()) {
        for (const CacheType values : all_cache_types()) {
          const LayerCache layer({keys, values}, kv_heads, head_dim);
          CHECK(layer.values_at() % 16 == 0);
          CHECK(layer.bytes() % 16 == 0);
          CHECK(layer.keys.scales_at(0, 0) % 16 == 0);
          CHECK(layer.bytes() == layer.keys.bytes() + layer.values.bytes());
        }
      }
    }
  }
}

TEST_CASE("each token's head has codes and scales of its own") {
  for (const CacheType type : all_cache_types()) {
    CAPTURE(name(type));
    const CacheHalf half{type, 3, 64};
    int64_t codes = 0, scales = half.codes_at(3, 0);
    for (int64_t head = 0; head < 3; ++head) {
      for (int64_t token = 0; token < kPageTokens; ++token) {
        CHECK(half.codes_at(head, token) == codes);
        CHECK(half.scales_at(head, token) == scales);
        codes += 64 * code_bits(type) / 8;
        scales += has_scales(type) ? 2 * 64 / kCacheBlock : 0;
      }
    }
    CHECK(half.bytes() == scales);
  }
}

}  // namespace
}  // namespace skald
