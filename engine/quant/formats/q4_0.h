// Q4_0: w[i] = scale * (q[i] - 8). 32 weights in 18 bytes, 4.5 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

struct BlockQ4_0 {
  static constexpr int kElems = 32;
  uint16_t scale;  // f16 bits
  uint8_t q[16];   // low nibbles: weights 0-15; high nibbles: 16-31
};
static_assert(sizeof(BlockQ4_0) == 18);

SKALD_HD inline int code(const BlockQ4_0& b, int i) { return (b.q[i % 16] >> (i / 16 * 4)) & 15; }

SKALD_HD inline float decode(const BlockQ4_0& b, int i) {
  return f16_to_f32(b.scale) * (code(b, i) - 8);
}

}  // namespace skald
