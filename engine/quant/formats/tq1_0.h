// TQ1_0: w[i] = scale * t, t = -1, 0 or 1. A byte has five weights: byte * 3^k, of which the lowest
// eight bits count, is a fraction of 256, and three times that fraction, rounded down, is t + 1.
// 256 weights in 54 bytes, 1.6875 bits per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/eighths.h"

namespace skald {

struct BlockTQ1_0 {
  static constexpr int kElems = 256;
  static constexpr uint64_t kNumbers = kTernaryNumbers;
  // Weight 32 * k + m, k = 0 to 4, is in byte m with the power 3^k; weight 160 + 16 * k + m in byte
  // 32
  // + m.
  uint8_t q[48];
  uint8_t high[4];  // weight 240 + 4 * k + m, k = 0 to 3, in byte m
  uint16_t scale;   // f16 bits
};
static_assert(sizeof(BlockTQ1_0) == 54);

SKALD_HD inline int ternary_code(int byte, int k) {
  for (; k > 0; --k) byte = byte * 3 & 255;
  return byte * 3 >> 8;
}

SKALD_HD inline int code(const BlockTQ1_0& b, int i) {
  if (i < 160) return ternary_code(b.q[i % 32], i / 32);
  i -= 160;
  if (i < 80) return ternary_code(b.q[32 + i % 16], i / 16);
  return ternary_code(b.high[i % 4], (i - 80) / 4);
}

SKALD_HD inline int byte_scale(const BlockTQ1_0&, int) { return 1; }

SKALD_HD inline float decode(const BlockTQ1_0& b, int i) {
  return decode_eighths(f16_to_f32(b.scale), b, i);
}

}  // namespace skald
