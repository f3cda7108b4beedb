// MXFP4 as checkpoints have it: byte j of a block holds the numbers 2 j and 2 j + 1 in its low and
// high half. In BlockMXFP4 it holds the numbers j and j + 16.
#pragma once

#include <cstddef>

#include "engine/quant/formats/mxfp4.h"

namespace skald {

inline constexpr int64_t kMxfp4Bytes = BlockMXFP4::kElems / 2;

inline BlockMXFP4 mxfp4_block(const std::byte* pairs, std::byte exponent) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(pairs);
  BlockMXFP4 block;
  block.exponent = static_cast<uint8_t>(exponent);
  for (int j = 0; j < kMxfp4Bytes / 2; ++j) {
    const int low = bytes[j], high = bytes[j + kMxfp4Bytes / 2];
    block.q[2 * j] = static_cast<uint8_t>((low & 15) | (high & 15) << 4);
    block.q[2 * j + 1] = static_cast<uint8_t>(low >> 4 | (high & 0xf0));
  }
  return block;
}

}  // namespace skald
