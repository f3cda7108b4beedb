// IQ4_NL: w[i] = scale * value[q[i]], with the values of iq4_values.h. 32 weights in 18 bytes,
// 4.5 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/iq4_values.h"

namespace skald {

struct BlockIQ4_NL {
  static constexpr int kElems = 32;
  uint16_t scale;  // f16 bits
  uint8_t q[16];   // low nibbles: weights 0-15; high nibbles: 16-31
};
static_assert(sizeof(BlockIQ4_NL) == 18);

SKALD_HD inline int code(const BlockIQ4_NL& b, int i) { return (b.q[i % 16] >> (i / 16 * 4)) & 15; }

SKALD_HD inline float decode(const BlockIQ4_NL& b, int i) {
  return f16_to_f32(b.scale) * iq4_value(code(b, i));
}

}  // namespace skald
