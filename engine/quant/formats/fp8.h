// FP8: w[i] = scale * q[i], where q[i] is a float of 8 bits, E4M3. 128 weights in 132 bytes, 8.25
// bits per weight. GGUF has no such type: matrices of FP8 checkpoints become it, whatever the
// columns that share a scale there. E4M3 has NaN: a block with one has a NaN scale, so that kernels
// may take the code of NaN for a number.
#pragma once

#include <cstdint>

#include "engine/base/float8.h"

namespace skald {

struct BlockFP8 {
  static constexpr int kElems = 128;
  float scale;
  uint8_t q[128];
};
static_assert(sizeof(BlockFP8) == 132);

SKALD_HD inline int code(const BlockFP8& b, int i) { return b.q[i]; }

SKALD_HD inline float decode(const BlockFP8& b, int i) { return b.scale * e4m3_to_f32(b.q[i]); }

// Also turns codes of NaN into the largest numbers.
inline void set_scale(BlockFP8& b, float scale) {
  b.scale = scale;
  for (uint8_t& q : b.q) q = static_cast<uint8_t>(is_e4m3_nan(q) ? q - 1 : q);
}

}  // namespace skald
