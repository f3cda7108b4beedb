// IQ2_XXS: w[i] = scale * (1 + 2 * s[g]) * value / 8, where g = i / 32. An entry of a grid gives
// the magnitudes of eight weights, each 8, 25 or 43, and seven bits give their signs. 256 weights
// in 66 bytes, 2.0625 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/eighths.h"
#include "engine/quant/formats/even_signs.h"
#include "engine/quant/formats/iq2_grids.h"

namespace skald {

struct BlockIQ2_XXS {
  static constexpr int kElems = 256;
  static constexpr uint64_t kNumbers = kIq2Numbers;
  uint16_t scale;  // f16 bits
  // For 32 weights: four bytes, an entry of the grid for each eight; and four bytes of a
  // little-endian number, seven bits of signs for each eight and s[g] in the upper four bits.
  struct Group {
    uint8_t q[4];
    uint8_t signs[4];
  } groups[8];
};
static_assert(sizeof(BlockIQ2_XXS) == 66);

SKALD_HD inline int code(const BlockIQ2_XXS& b, int i) {
  static constexpr Iq2XxsGrid kGrid = kIq2XxsGrid;  // device code cannot read the host's
  const BlockIQ2_XXS::Group& group = b.groups[i / 32];
  const int n = i / 8 % 4, j = i % 8;
  const int signs = seven_signs(group.signs, n);
  return (kGrid.entries[group.q[n]] >> (2 * j) & 3) | even_sign(signs, j) << 2;
}

// The factor of 16 weights, 1 to 31.
SKALD_HD inline int byte_scale(const BlockIQ2_XXS& b, int g) {
  return 1 + 2 * (b.groups[g / 2].signs[3] >> 4);
}

SKALD_HD inline float decode(const BlockIQ2_XXS& b, int i) {
  return decode_eighths(f16_to_f32(b.scale), b, i);
}

}  // namespace skald
