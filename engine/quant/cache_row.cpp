#include "engine/quant/cache_row.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/float8.h"
#include "engine/quant/cache_block.h"
#include "engine/quant/dtype.h"
#include "engine/quant/formats/q4_0.h"
#include "engine/quant/formats/q8_0.h"

namespace skald {
namespace {

void put(BlockQ8_0& block, const int* codes) {
  for (int i = 0; i < kCacheBlock; ++i) block.q[i] = static_cast<int8_t>(codes[i]);
}

void put(BlockQ4_0& block, const int* codes) {
  constexpr int kBytes = kCacheBlock / 2, kOffset = 8;
  for (int i = 0; i < kBytes; ++i) {
    block.q[i] = static_cast<uint8_t>((codes[i] + kOffset) | (codes[i + kBytes] + kOffset) << 4);
  }
}

template <CacheType type, class Block>
void encode_blocks(const float* in, int64_t count, CacheBytes<std::byte> out) {
  static_assert(Block::kElems == kCacheBlock);
  for (int64_t at = 0; at < count; at += kCacheBlock) {
    const float* const x = in + at;
    uint32_t key = 0;
    for (int i = 0; i < kCacheBlock; ++i) key = std::max(key, magnitude_key(x[i]));
    Block block;
    block.scale = cache_scale(type, number_of_key(key));
    const float inverse = inverse_of_scale(block.scale);
    int codes[kCacheBlock];
    for (int i = 0; i < kCacheBlock; ++i) codes[i] = cache_code(type, x[i], inverse);
    put(block, codes);
    std::memcpy(out.codes, block.q, sizeof block.q);
    std::memcpy(out.scales, &block.scale, sizeof block.scale);
    out.codes += sizeof block.q;
    out.scales += sizeof block.scale;
  }
}

template <class Block>
void decode_blocks(CacheBytes<const std::byte> in, int64_t count, float* out) {
  for (int64_t at = 0; at < count; at += kCacheBlock) {
    Block block;
    std::memcpy(block.q, in.codes, sizeof block.q);
    std::memcpy(&block.scale, in.scales, sizeof block.scale);
    for (int i = 0; i < kCacheBlock; ++i) out[at + i] = decode(block, i);
    in.codes += sizeof block.q;
    in.scales += sizeof block.scale;
  }
}

// The same type among the weights' formats; FP8 has none.
DType weights_type(CacheType type) {
  switch (type) {
    case CacheType::F32:
      return DType::F32;
    case CacheType::F16:
      return DType::F16;
    case CacheType::BF16:
      return DType::BF16;
    case CacheType::Q8_0:
      return DType::Q8_0;
    case CacheType::Q4_0:
      return DType::Q4_0;
    case CacheType::FP8:
      break;
  }
  check_failed("a type of the cache is one of weights", std::source_location::current());
}

}  // namespace

std::span<const CacheType> all_cache_types() {
  static constexpr CacheType kAll[] = {CacheType::F32,  CacheType::F16, CacheType::BF16,
                                       CacheType::Q8_0, CacheType::FP8, CacheType::Q4_0};
  return kAll;
}

std::string_view name(CacheType type) {
  return type == CacheType::FP8 ? "FP8" : name(weights_type(type));
}

std::string to_text(const CacheTypes& types) {
  if (types.keys == types.values) return std::string(name(types.keys));
  return concat(name(types.keys), " keys, ", name(types.values), " values");
}

std::optional<CacheType> cache_type_from_name(std::string_view text) {
  for (const CacheType type : all_cache_types()) {
    const std::string_view own = name(type);
    const bool same = std::equal(
        text.begin(), text.end(), own.begin(), own.end(),
        [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); });
    if (same) return type;
  }
  return {};
}

CacheTypes cache_types_of(DType type) {
  for (const CacheType one : {CacheType::F32, CacheType::F16, CacheType::BF16}) {
    if (weights_type(one) == type) return {one, one};
  }
  check_failed("activations have a plain type", std::source_location::current());
}

void encode_cache(CacheType type, const float* in, int64_t count, CacheBytes<std::byte> out) {
  switch (type) {
    case CacheType::Q8_0:
      return encode_blocks<CacheType::Q8_0, BlockQ8_0>(in, count, out);
    case CacheType::Q4_0:
      return encode_blocks<CacheType::Q4_0, BlockQ4_0>(in, count, out);
    case CacheType::FP8:
      for (int64_t i = 0; i < count; ++i) out.codes[i] = std::byte{f32_to_e4m3(in[i])};
      return;
    default:
      info(weights_type(type)).encode_row(in, out.codes, count, nullptr);
  }
}

void decode_cache(CacheType type, CacheBytes<const std::byte> in, int64_t count, float* out) {
  switch (type) {
    case CacheType::Q8_0:
      return decode_blocks<BlockQ8_0>(in, count, out);
    case CacheType::Q4_0:
      return decode_blocks<BlockQ4_0>(in, count, out);
    case CacheType::FP8:
      for (int64_t i = 0; i < count; ++i) {
        out[i] = e4m3_to_f32(std::to_integer<uint8_t>(in.codes[i]));
      }
      return;
    default:
      info(weights_type(type)).decode_row(in.codes, out, count);
  }
}

}  // namespace skald
