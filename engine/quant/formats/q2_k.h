// Q2_K: w[i] = scale * s[g] * q[i] - min * m[g], where g = i / 16. 256 weights in 84 bytes,
// 2.625 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

struct BlockQ2_K {
  static constexpr int kElems = 256;
  uint8_t scales[16];  // one per group of 16: s in the low nibble, m in the high one
  uint8_t q[64];       // byte 32 * h + l: two bits each of weights 128 * h + l + {0, 32, 64, 96}
  uint16_t scale;      // f16 bits
  uint16_t min;        // f16 bits
};
static_assert(sizeof(BlockQ2_K) == 84);

SKALD_HD inline int code(const BlockQ2_K& b, int i) {
  return (b.q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
}

SKALD_HD inline float decode(const BlockQ2_K& b, int i) {
  const int group = b.scales[i / 16];
  return f16_to_f32(b.scale) * (group & 15) * code(b, i) - f16_to_f32(b.min) * (group >> 4);
}

}  // namespace skald
