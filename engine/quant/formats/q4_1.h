// Q4_1: w[i] = scale * q[i] + min. 32 weights in 20 bytes, 5 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

struct BlockQ4_1 {
  static constexpr int kElems = 32;
  uint16_t scale;  // f16 bits
  uint16_t min;    // f16 bits
  uint8_t q[16];   // low nibbles: weights 0-15; high nibbles: 16-31
};
static_assert(sizeof(BlockQ4_1) == 20);

SKALD_HD inline int code(const BlockQ4_1& b, int i) { return (b.q[i % 16] >> (i / 16 * 4)) & 15; }

SKALD_HD inline float decode(const BlockQ4_1& b, int i) {
  return f16_to_f32(b.scale) * code(b, i) + f16_to_f32(b.min);
}

}  // namespace skald
