// The number formats of the KV cache. Keys and values may have different ones. Kernels parse this
// header.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

// Q8_0 and Q4_0: blocks of kCacheBlock numbers of a head with one f16 scale, with the codes of
// GGUF's formats of these names (cache_block.h). FP8: E4M3 without a scale; numbers beyond 448
// become 448 (base/float8.h).
enum class CacheType : uint8_t { F32, F16, BF16, Q8_0, FP8, Q4_0 };

struct CacheTypes {
  CacheType keys = CacheType::F16, values = CacheType::F16;

  bool operator==(const CacheTypes&) const = default;
};

inline constexpr int kCacheBlock = 32;

SKALD_HD constexpr bool has_scales(CacheType type) {
  return type == CacheType::Q8_0 || type == CacheType::Q4_0;
}

// True if heads are stored after a Hadamard rotation (base/hadamard.h), which follows norm and
// rope. Queries are rotated if the keys are; the output of attention is rotated back if the values
// are.
SKALD_HD constexpr bool is_rotated(CacheType type) { return type == CacheType::Q4_0; }

SKALD_HD constexpr int code_bits(CacheType type) {
  switch (type) {
    case CacheType::F32:
      return 32;
    case CacheType::F16:
    case CacheType::BF16:
      return 16;
    case CacheType::Q8_0:
    case CacheType::FP8:
      return 8;
    case CacheType::Q4_0:
      return 4;
  }
  return 0;
}

}  // namespace skald
