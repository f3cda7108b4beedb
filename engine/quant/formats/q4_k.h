// Q4_K: w[i] = scale * s[g] * q[i] - min * m[g], where g = i / 32. 256 weights in 144 bytes,
// 4.5 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/q4_k_scales.h"

namespace skald {

struct BlockQ4_K {
  static constexpr int kElems = 256;
  uint16_t scale;      // f16 bits
  uint16_t min;        // f16 bits
  uint8_t scales[12];  // s and m of 8 groups, see q4_k_scales.h
  uint8_t
      q[128];  // byte 32 * p + l: weight 64 * p + l in the low nibble, 64 * p + 32 + l in the high
};
static_assert(sizeof(BlockQ4_K) == 144);

SKALD_HD inline int code(const BlockQ4_K& b, int i) {
  return (b.q[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15;
}

SKALD_HD inline float decode(const BlockQ4_K& b, int i) {
  const int g = i / 32;
  return f16_to_f32(b.scale) * q4_k_scale(b.scales, g) * code(b, i) -
         f16_to_f32(b.min) * q4_k_min(b.scales, g);
}

}  // namespace skald
