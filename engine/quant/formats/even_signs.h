// The signs of eight weights in seven bits, for IQ2_XXS, IQ2_XS and IQ3_XXS: the number of negative
// weights is even, so the last sign follows from the others.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

// 1 if the j-th of eight weights is negative. Bit j of `signs` is the sign of the j-th of the first
// seven; `signs` is below 128.
SKALD_HD constexpr int even_sign(int signs, int j) {
  int parity = signs ^ signs >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return (signs | (parity & 1) << 7) >> j & 1;
}

// The signs of the n-th eight of 32 weights, from a little-endian number of four bytes. The upper
// four bits of that number are the scale's.
SKALD_HD inline int seven_signs(const uint8_t* four, int n) {
  const uint32_t number =
      four[0] | four[1] << 8 | four[2] << 16 | static_cast<uint32_t>(four[3]) << 24;
  return static_cast<int>(number >> (7 * n) & 127);
}

}  // namespace skald
