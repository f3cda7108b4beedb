// Turns random bits into a block of weights of a wanted size, in any block format. For random
// models and for tests.
#pragma once

#include <cstddef>

#include "engine/quant/dtype.h"

namespace skald {

struct BlockScales {
  float scale, min;
};

// Scales for a block that holds info(type).block_bytes of any bits. They make the largest product
// of scale and code `scaled` in magnitude, and the largest minimum `added`. Formats without a
// minimum ignore `added`.
BlockScales scales_for(DType type, const std::byte* block, float scaled, float added);

}  // namespace skald
