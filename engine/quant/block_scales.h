// Turns random bits into a block of weights of a wanted size, in any block format. For random
// models and for tests.
#pragma once

#include <cstddef>

#include "engine/quant/dtype.h"

namespace skald {

struct BlockScales {
  float scale, min;
};

// The scales for a block with the codes of `block`, which holds info(type).block_bytes of any
// bits. The largest product of scale and code becomes `scaled` in magnitude, and the largest
// minimum `added`. Formats without a minimum ignore `added`.
BlockScales scales_for(DType type, const std::byte* block, float scaled, float added);

}  // namespace skald
