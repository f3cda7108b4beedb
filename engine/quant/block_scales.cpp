#include "engine/quant/block_scales.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace skald {
namespace {

// The weight of largest magnitude.
float largest_weight(const DTypeInfo& format, std::byte* block, BlockScales scales) {
  format.set_scales(block, scales.scale, scales.min);
  std::vector<float> weights(static_cast<size_t>(format.block_elems));
  format.decode_row(block, weights.data(), format.block_elems);
  return *std::max_element(weights.begin(), weights.end(),
                           [](float a, float b) { return std::abs(a) < std::abs(b); });
}

}  // namespace

BlockScales scales_for(DType type, const std::byte* block, float scaled, float added) {
  const DTypeInfo& format = info(type);
  std::vector<std::byte> copy(block, block + format.block_bytes);
  const float product = std::abs(largest_weight(format, copy.data(), {1, 0}));
  const float minimum = largest_weight(format, copy.data(), {0, 1});
  return {product == 0 ? 0 : scaled / product, minimum == 0 ? 0 : added / minimum};
}

}  // namespace skald
