// Q8_0: w[i] = scale * q[i]. 32 weights in 34 bytes, 8.5 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

struct BlockQ8_0 {
  static constexpr int kElems = 32;
  uint16_t scale;  // f16 bits
  int8_t q[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// Unsigned code: q + 128.
SKALD_HD inline int code(const BlockQ8_0& b, int i) { return b.q[i] + 128; }

SKALD_HD inline float decode(const BlockQ8_0& b, int i) { return f16_to_f32(b.scale) * b.q[i]; }

}  // namespace skald
