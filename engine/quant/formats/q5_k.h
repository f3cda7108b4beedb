// Q5_K: w[i] = scale * s[g] * q[i] - min * m[g], where g = i / 32. 256 weights in 176 bytes,
// 5.5 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/q4_k_scales.h"

namespace skald {

struct BlockQ5_K {
  static constexpr int kElems = 256;
  uint16_t scale;      // f16 bits
  uint16_t min;        // f16 bits
  uint8_t scales[12];  // s and m of 8 groups, see q4_k_scales.h
  uint8_t high[32];    // byte l, bit g: bit 4 of weight 32 * g + l
  uint8_t
      q[128];  // byte 32 * p + l: weight 64 * p + l in the low nibble, 64 * p + 32 + l in the high
};
static_assert(sizeof(BlockQ5_K) == 176);

SKALD_HD inline int code(const BlockQ5_K& b, int i) {
  const int low = (b.q[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15;
  const int high = (b.high[i % 32] >> (i / 32)) & 1;
  return low | high << 4;
}

SKALD_HD inline float decode(const BlockQ5_K& b, int i) {
  const int g = i / 32;
  return f16_to_f32(b.scale) * q4_k_scale(b.scales, g) * code(b, i) -
         f16_to_f32(b.min) * q4_k_min(b.scales, g);
}

}  // namespace skald
