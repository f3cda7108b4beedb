// NVFP4: w[i] = q[i] * (scales[i / 16] * times / over), where q[i] is a float of 4 bits, E2M1, and
// a scale one of 8 bits, E4M3. 256 weights in 152 bytes, 4.75 bits per weight. `times` or `over` is
// the scale of a whole matrix, which tools multiply by or divide by; the other is 1. Checkpoints
// become this format; GGUF's type of the same name has no such scale. E4M3 has NaN: a block with a
// NaN scale has a NaN in `times`, so that kernels may take the code of NaN for a number.
#pragma once

#include <cstdint>

#include "engine/base/float8.h"

namespace skald {

struct BlockNVFP4 {
  static constexpr int kElems = 256, kGroup = 16;
  float times, over;
  uint8_t scales[kElems / kGroup];
  uint8_t q[kElems / 2];  // low nibbles: even weights; high nibbles: odd weights
};
static_assert(sizeof(BlockNVFP4) == 152);

SKALD_HD inline int code(const BlockNVFP4& b, int i) { return b.q[i / 2] >> (i % 2 * 4) & 15; }

// The scale of the group's 16 weights, rounded as tools round it.
SKALD_HD inline float nvfp4_scale(uint8_t scale, float times, float over) {
  return e4m3_to_f32(scale) * times / over;
}

SKALD_HD inline float decode(const BlockNVFP4& b, int i) {
  return e2m1_to_f32(code(b, i)) * nvfp4_scale(b.scales[i / BlockNVFP4::kGroup], b.times, b.over);
}

// Also turns scales that are NaN into the largest numbers.
inline void set_scale(BlockNVFP4& b, float scale) {
  b.times = scale;
  b.over = 1;
  for (uint8_t& s : b.scales) s = static_cast<uint8_t>(is_e4m3_nan(s) ? s - 1 : s);
}

}  // namespace skald
