// The twelve bytes of Q4_K and Q5_K that hold eight 6-bit scales and eight 6-bit minimums. Groups
// 0-3 lie in the low six bits of bytes 0-3 (scales) and 4-7 (minimums). Groups 4-7 have their low
// nibbles in bytes 8-11 (scale low, minimum high) and their two high bits on top of bytes 0-3 and
// 4-7.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

SKALD_HD inline int q4_k_scale(const uint8_t* packed, int g) {
  return g < 4 ? packed[g] & 63 : (packed[g + 4] & 15) | (packed[g - 4] >> 6 << 4);
}

SKALD_HD inline int q4_k_min(const uint8_t* packed, int g) {
  return g < 4 ? packed[g + 4] & 63 : (packed[g + 4] >> 4) | (packed[g] >> 6 << 4);
}

}  // namespace skald
