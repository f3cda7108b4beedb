#include "engine/selftest/random_blocks.h"

#include "engine/quant/block_scales.h"

namespace skald::selftest {

void set_scales(DType type, std::byte* block, std::mt19937& random) {
  const DTypeInfo& format = info(type);
  if (format.block_elems == 1) {
    const float weight = std::normal_distribution<float>()(random);
    format.encode_row(&weight, block, 1, nullptr);
    return;
  }
  // Uniform sizes: with normal ones, a few blocks would decide the error of a product.
  std::uniform_real_distribution<float> uniform(-1, 1);
  const float scaled = 2 * uniform(random), added = uniform(random);
  const BlockScales scales = scales_for(type, block, scaled, added);
  format.set_scales(block, scales.scale, scales.min);
}

}  // namespace skald::selftest
