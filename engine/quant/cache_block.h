// How numbers become a block of a cache that has scales. The functions are for host and device, so
// that both can write the same bytes.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/cache_type.h"

namespace skald {

// Keys in the order of magnitudes: the largest key of a block belongs to its number of the largest
// magnitude, to a negative one if there are two. Infinity comes behind all numbers, then NaN.
SKALD_HD inline uint32_t magnitude_key(float x) {
  const uint32_t bits = f32_to_bits(x);
  return bits << 1 | bits >> 31;
}
SKALD_HD inline float number_of_key(uint32_t key) { return bits_to_f32(key >> 1 | key << 31); }

// A code is a whole number from `lowest` to `highest`, and stands for scale * code. The scale is a
// block's number of the largest magnitude, divided by `most`.
struct CacheGrid {
  float lowest, highest, most;
};
SKALD_HD constexpr CacheGrid cache_grid(CacheType type) {
  return type == CacheType::Q8_0 ? CacheGrid{-127, 127, 127} : CacheGrid{-8, 7, -8};
}

// The f16 bits of a block's scale. `largest` is number_of_key() of its largest key. Not finite if
// that is not, or is too large.
SKALD_HD inline uint16_t cache_scale(CacheType type, float largest) {
  return f32_to_f16(largest / cache_grid(type).most);
}
// The factor of cache_code().
SKALD_HD inline float inverse_of_scale(uint16_t scale) {
  const float value = f16_to_f32(scale);
  return value == 0 ? 0 : 1 / value;
}
// The nearest code, ties to even; the lowest for NaN.
SKALD_HD inline int cache_code(CacheType type, float x, float inverse) {
  const CacheGrid grid = cache_grid(type);
  const float steps = x * inverse;
  const float low = steps > grid.lowest ? steps : grid.lowest;
  const float bounded = low < grid.highest ? low : grid.highest;
#ifdef __CUDA_ARCH__
  return __float2int_rn(bounded);
#else
  constexpr float kWhole = 0x1.8p23f;  // beside it, floats are whole numbers
  return static_cast<int>(bounded + kWhole - kWhole);
#endif
}

}  // namespace skald
