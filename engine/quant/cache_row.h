// What the KV cache's formats are called, and how a head's keys or values become bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/quant/cache_type.h"
#include "engine/quant/dtype_enum.h"

namespace skald {

std::span<const CacheType> all_cache_types();
std::string_view name(CacheType type);         // GGUF's spelling: "Q8_0"
std::string to_text(const CacheTypes& types);  // "F16", or "Q8_0 keys, F16 values"
std::optional<CacheType> cache_type_from_name(std::string_view name);  // upper or lower case
CacheTypes cache_types_of(DType type);                                 // both are this plain type

// What the user asks for. The backend chooses what is empty.
struct CacheTypeRequest {
  std::optional<CacheType> keys = {}, values = {};

  bool any() const { return keys || values; }

  CacheTypes or_else(const CacheTypes& usual) const {
    return {keys.value_or(usual.keys), values.value_or(usual.values)};
  }
};

// The bytes of numbers that lie together: the codes, and for types that has_scales() an f16 for
// each block.
template <class Byte>
struct CacheBytes {
  Byte* codes;
  Byte* scales;  // not read, nor written, without scales
};

// `count` numbers, for types that has_scales() a multiple of kCacheBlock. The caller rotates them.
// A block's bytes depend on its own numbers alone. If one of them is not finite, or too large for
// an f16 scale, no number of the block decodes to a finite one.
void encode_cache(CacheType type, const float* in, int64_t count, CacheBytes<std::byte> out);
void decode_cache(CacheType type, CacheBytes<const std::byte> in, int64_t count, float* out);

}  // namespace skald
