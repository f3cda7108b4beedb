// Q3_K: w[i] = scale * (s[g] - 32) * (q[i] - 4), where g = i / 16. 256 weights in 110 bytes,
// 3.4375 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

struct BlockQ3_K {
  static constexpr int kElems = 256;
  uint8_t high[32];  // byte l, bit j: bit 2 of weight 32 * j + l
  uint8_t q[64];     // byte 32 * h + l: two low bits each of weights 128 * h + l + {0, 32, 64, 96}
  uint8_t
      scales[12];  // s: 16 low nibbles (groups 0-7, then 8-15), then 4 bytes of two high bits each
  uint16_t scale;  // f16 bits
};
static_assert(sizeof(BlockQ3_K) == 110);

// The stored s[g], 0 to 63; the group's scale is s[g] - 32.
SKALD_HD inline int q3_k_scale(const BlockQ3_K& b, int g) {
  const int low = (b.scales[g % 8] >> (g / 8 * 4)) & 15;
  const int high = (b.scales[8 + g % 4] >> (g / 4 * 2)) & 3;
  return low | high << 4;
}

SKALD_HD inline int code(const BlockQ3_K& b, int i) {
  const int low = (b.q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
  const int high = (b.high[i % 32] >> (i / 32)) & 1;
  return low | high << 2;
}

SKALD_HD inline float decode(const BlockQ3_K& b, int i) {
  return f16_to_f32(b.scale) * (q3_k_scale(b, i / 16) - 32) * (code(b, i) - 4);
}

}  // namespace skald
