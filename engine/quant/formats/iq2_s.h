// IQ2_S: w[i] = scale * (1 + 2 * s[g]) * value / 8, where g = i / 16. An entry of a grid gives the
// magnitudes of eight weights, each 8, 25 or 43, and each weight has a sign. 256 weights in 82
// bytes, 2.5625 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/eighths.h"
#include "engine/quant/formats/iq2_grids.h"

namespace skald {

struct BlockIQ2_S {
  static constexpr int kElems = 256;
  static constexpr uint64_t kNumbers = kIq2Numbers;
  uint16_t scale;     // f16 bits
  uint8_t q[32];      // low 8 bits of the grid's entry for weights 8n to 8n + 7
  uint8_t signs[32];  // bit i % 8 of byte i / 8: weight i is negative
  uint8_t high[8];    // bits 2 * (n % 4) and the next of byte n / 4: bits 8 and 9 of entry n
  uint8_t scales[8];  // s: low nibbles g = 0, 2, 4, ...; high nibbles 1, 3, 5, ...
};
static_assert(sizeof(BlockIQ2_S) == 82);

SKALD_HD inline int code(const BlockIQ2_S& b, int i) {
  static constexpr Iq2SGrid kGrid = kIq2SGrid;  // device code cannot read the host's
  const int n = i / 8, j = i % 8;
  const int entry = b.q[n] | (b.high[n / 4] >> (n % 4 * 2) & 3) << 8;
  return (kGrid.entries[entry] >> (2 * j) & 3) | (b.signs[n] >> j & 1) << 2;
}

// The factor of 16 weights, 1 to 31.
SKALD_HD inline int byte_scale(const BlockIQ2_S& b, int g) {
  return 1 + 2 * (b.scales[g / 2] >> (g % 2 * 4) & 15);
}

SKALD_HD inline float decode(const BlockIQ2_S& b, int i) {
  return decode_eighths(f16_to_f32(b.scale), b, i);
}

}  // namespace skald
