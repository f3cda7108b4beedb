// TQ2_0: w[i] = scale * (q[i] - 1). Files have q = 0, 1 and 2. 256 weights in 66 bytes, 2.0625 bits
// per weight.
#pragma once

#include <cstdint>

#include "engine/base/half.h"
#include "engine/quant/formats/eighths.h"

namespace skald {

struct BlockTQ2_0 {
  static constexpr int kElems = 256;
  static constexpr uint64_t kNumbers = kTernaryNumbers;
  uint8_t
      q[64];  // byte 32 * h + m: weights 128 * h + 32 * l + m, l = 0 to 3, in bits 2l and 2l + 1
  uint16_t scale;  // f16 bits
};
static_assert(sizeof(BlockTQ2_0) == 66);

SKALD_HD inline int code(const BlockTQ2_0& b, int i) {
  return b.q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

SKALD_HD inline int byte_scale(const BlockTQ2_0&, int) { return 1; }

SKALD_HD inline float decode(const BlockTQ2_0& b, int i) {
  return decode_eighths(f16_to_f32(b.scale), b, i);
}

}  // namespace skald
