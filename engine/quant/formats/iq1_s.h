// IQ1_S: w[i] = scale * (1 + 2 * s[g]) * (t ± 1/8), where g = i / 32. An entry of a grid gives t =
// -1, 0 or 1 for eight weights; the sign of the shift is common to 32 weights. 256 weights in 50
// bytes, 1.5625 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/eighths.h"
#include "engine/quant/formats/iq1_grid.h"

namespace skald {

struct BlockIQ1_S {
  static constexpr int kElems = 256;
  static constexpr uint64_t kNumbers = kIq1Numbers;
  uint16_t scale;  // f16 bits
  uint8_t q[32];   // low 8 bits of the grid's entry for weights 8n to 8n + 7
  // For 32 weights: bits 8 to 10 of four entries, three bits each; s[g] in bits 12-14; in bit 15
  // the sign of the shift.
  uint16_t high[8];
};
static_assert(sizeof(BlockIQ1_S) == 50);

SKALD_HD inline int code(const BlockIQ1_S& b, int i) {
  static constexpr Iq1Grid kGrid = kIq1Grid;  // device code cannot read the host's
  const int high = b.high[i / 32], n = i / 8, j = i % 8;
  const int entry = b.q[n] | (high >> (n % 4 * 3) & 7) << 8;
  return (kGrid.entries[entry] >> (2 * j) & 3) | high >> 15 << 2;
}

// The factor of 16 weights, 1 to 15.
SKALD_HD inline int byte_scale(const BlockIQ1_S& b, int g) {
  return 1 + 2 * (b.high[g / 2] >> 12 & 7);
}

SKALD_HD inline float decode(const BlockIQ1_S& b, int i) {
  return decode_eighths(f16_to_f32(b.scale), b, i);
}

}  // namespace skald
