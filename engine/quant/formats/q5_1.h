// Q5_1: w[i] = scale * q[i] + min. 32 weights in 24 bytes, 6 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

struct BlockQ5_1 {
  static constexpr int kElems = 32;
  uint16_t scale;   // f16 bits
  uint16_t min;     // f16 bits
  uint8_t high[4];  // bit i % 8 of byte i / 8 is bit 4 of q[i]
  uint8_t q[16];    // low nibbles: weights 0-15; high nibbles: 16-31
};
static_assert(sizeof(BlockQ5_1) == 24);

SKALD_HD inline int code(const BlockQ5_1& b, int i) {
  const int low = (b.q[i % 16] >> (i / 16 * 4)) & 15;
  const int high = (b.high[i / 8] >> (i % 8)) & 1;
  return low | high << 4;
}

SKALD_HD inline float decode(const BlockQ5_1& b, int i) {
  return f16_to_f32(b.scale) * code(b, i) + f16_to_f32(b.min);
}

}  // namespace skald
