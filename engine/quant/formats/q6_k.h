// Q6_K: w[i] = scale * s[g] * (q[i] - 32), where g = i / 16. 256 weights in 210 bytes,
// 6.5625 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

struct BlockQ6_K {
  static constexpr int kElems = 256;
  uint8_t q[128];    // byte 64 * h + l, l < 64: low nibbles of weights 128 * h + l and + 64 + l
  uint8_t high[64];  // byte 32 * h + l: two high bits each of weights 128 * h + l + {0, 32, 64, 96}
  int8_t scales[16];  // s
  uint16_t scale;     // f16 bits
};
static_assert(sizeof(BlockQ6_K) == 210);

SKALD_HD inline int code(const BlockQ6_K& b, int i) {
  const int low = (b.q[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4)) & 15;
  const int high = (b.high[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
  return low | high << 4;
}

SKALD_HD inline float decode(const BlockQ6_K& b, int i) {
  return f16_to_f32(b.scale) * b.scales[i / 16] * (code(b, i) - 32);
}

}  // namespace skald
