// IQ2_XS: w[i] = scale * (1 + 2 * s[g]) * value / 8, where g = i / 16. An entry of a grid gives the
// magnitudes of eight weights, each 8, 25 or 43, and seven bits give their signs. 256 weights in 74
// bytes, 2.3125 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/eighths.h"
#include "engine/quant/formats/even_signs.h"
#include "engine/quant/formats/iq2_grids.h"

namespace skald {

struct BlockIQ2_XS {
  static constexpr int kElems = 256;
  static constexpr uint64_t kNumbers = kIq2Numbers;
  uint16_t scale;     // f16 bits
  uint16_t q[32];     // for eight weights: the grid's entry in bits 0-8, signs in bits 9-15
  uint8_t scales[8];  // s: low nibbles g = 0, 2, 4, ...; high nibbles 1, 3, 5, ...
};
static_assert(sizeof(BlockIQ2_XS) == 74);

SKALD_HD inline int code(const BlockIQ2_XS& b, int i) {
  static constexpr Iq2XsGrid kGrid = kIq2XsGrid;  // device code cannot read the host's
  const int q = b.q[i / 8], j = i % 8;
  return (kGrid.entries[q & 511] >> (2 * j) & 3) | even_sign(q >> 9, j) << 2;
}

// The factor of 16 weights, 1 to 31.
SKALD_HD inline int byte_scale(const BlockIQ2_XS& b, int g) {
  return 1 + 2 * (b.scales[g / 2] >> (g % 2 * 4) & 15);
}

SKALD_HD inline float decode(const BlockIQ2_XS& b, int i) {
  return decode_eighths(f16_to_f32(b.scale), b, i);
}

}  // namespace skald
