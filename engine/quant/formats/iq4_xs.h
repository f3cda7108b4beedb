// IQ4_XS: w[i] = scale * (s[g] - 32) * value[q[i]], where g = i / 32, with the values of
// iq4_values.h. 256 weights in 136 bytes, 4.25 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/iq4_values.h"

namespace skald {

struct BlockIQ4_XS {
  static constexpr int kElems = 256;
  uint16_t scale;         // f16 bits
  uint16_t scales_high;   // bits 2g and 2g + 1: bits 4 and 5 of s[g]
  uint8_t scales_low[4];  // byte g / 2: bits 0-3 of s[g], even g in the low nibble
  uint8_t q[128];         // byte 16 * g + l: weight 32 * g + l in the low nibble, + 16 in the high
};
static_assert(sizeof(BlockIQ4_XS) == 136);

// The stored s[g], 0 to 63; the group's scale is s[g] - 32.
SKALD_HD inline int iq4_xs_scale(const BlockIQ4_XS& b, int g) {
  const int low = (b.scales_low[g / 2] >> (g % 2 * 4)) & 15;
  const int high = (b.scales_high >> (g * 2)) & 3;
  return low | high << 4;
}

SKALD_HD inline int code(const BlockIQ4_XS& b, int i) {
  return (b.q[i / 32 * 16 + i % 16] >> (i / 16 % 2 * 4)) & 15;
}

SKALD_HD inline float decode(const BlockIQ4_XS& b, int i) {
  return f16_to_f32(b.scale) * (iq4_xs_scale(b, i / 32) - 32) * iq4_value(code(b, i));
}

}  // namespace skald
