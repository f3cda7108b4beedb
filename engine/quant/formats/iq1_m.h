// IQ1_M: w[i] = scale * (1 + 2 * s[g]) * (t ± 1/8), where g = i / 16. An entry of a grid gives t =
// -1, 0 or 1 for eight weights, which have the sign of their shift in common. 256 weights in 56
// bytes, 1.75 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/eighths.h"
#include "engine/quant/formats/iq1_grid.h"

namespace skald {

struct BlockIQ1_M {
  static constexpr int kElems = 256;
  static constexpr uint64_t kNumbers = kIq1Numbers;
  uint8_t q[32];     // low 8 bits of the grid's entry for weights 8n to 8n + 7
  uint8_t high[16];  // nibble n: bits 8 to 10 of entry n; its bit 3: the sign of the shift
  // Little-endian numbers of 16 bits. Number k: s[4k] to s[4k + 3], three bits each; in bits 12-15
  // the bits 4k to 4k + 3 of the block's f16 scale.
  uint8_t scales[8];
};
static_assert(sizeof(BlockIQ1_M) == 56);

SKALD_HD inline uint16_t scale_bits(const BlockIQ1_M& b) {
  int bits = 0;
  for (int k = 0; k < 4; ++k) bits |= (b.scales[2 * k + 1] >> 4) << (4 * k);
  return static_cast<uint16_t>(bits);
}

SKALD_HD inline int code(const BlockIQ1_M& b, int i) {
  static constexpr Iq1Grid kGrid = kIq1Grid;  // device code cannot read the host's
  const int n = i / 8, j = i % 8;
  const int high = b.high[n / 2] >> (n % 2 * 4) & 15;
  return (kGrid.entries[b.q[n] | (high & 7) << 8] >> (2 * j) & 3) | high >> 3 << 2;
}

// The factor of 16 weights, 1 to 15.
SKALD_HD inline int byte_scale(const BlockIQ1_M& b, int g) {
  const int four = b.scales[g / 4 * 2] | b.scales[g / 4 * 2 + 1] << 8;
  return 1 + 2 * (four >> (g % 4 * 3) & 7);
}

SKALD_HD inline float decode(const BlockIQ1_M& b, int i) {
  return decode_eighths(f16_to_f32(scale_bits(b)), b, i);
}

inline void set_scale(BlockIQ1_M& b, float scale) {
  const int bits = f32_to_f16(scale);
  for (int k = 0; k < 4; ++k) {
    uint8_t& byte = b.scales[2 * k + 1];
    byte = static_cast<uint8_t>((byte & 15) | (bits >> (4 * k) & 15) << 4);
  }
}

}  // namespace skald
