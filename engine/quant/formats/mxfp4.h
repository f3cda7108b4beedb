// MXFP4: w[i] = 2^(exponent - 128) * value[q[i]]. Bit 3 of q is the sign; the other bits select one
// of 0 1 2 3 4 6 8 12. 32 weights in 17 bytes, 4.25 bits per weight. Exponents 0 and 1 give
// subnormal float32 scales, so a build that flushes subnormals to zero decodes them wrongly.
// Exponent 255 means 2^127, not NaN.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

struct BlockMXFP4 {
  static constexpr int kElems = 32;
  uint8_t exponent;
  uint8_t q[16];  // low nibbles: weights 0-15; high nibbles: 16-31
};
static_assert(sizeof(BlockMXFP4) == 17);

SKALD_HD inline int code(const BlockMXFP4& b, int i) { return (b.q[i % 16] >> (i / 16 * 4)) & 15; }

SKALD_HD inline float mxfp4_scale(uint32_t exponent) {
  return bits_to_f32(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

SKALD_HD inline float decode(const BlockMXFP4& b, int i) {
  const int q = code(b, i);
  const int magnitude = static_cast<int>((0x0c08060403020100u >> (q % 8 * 8)) & 15);
  return mxfp4_scale(b.exponent) * (q < 8 ? magnitude : -magnitude);
}

// Gives the block the largest power of two within |scale|.
inline void set_scale(BlockMXFP4& b, float scale) {
  b.exponent = static_cast<uint8_t>((f32_to_bits(scale) >> 23 & 255) + 1);
}

}  // namespace skald
