#include "engine/quant/block_scales.h"

#include <cmath>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace skald {
namespace {

float largest_with(const DTypeInfo& format, std::vector<std::byte> block, BlockScales scales) {
  format.set_scales(block.data(), scales.scale, scales.min);
  std::vector<float> weights(static_cast<size_t>(format.block_elems));
  format.decode_row(block.data(), weights.data(), format.block_elems);
  float largest = 0;
  for (const float weight : weights) {
    CHECK(std::isfinite(weight));
    largest = std::max(largest, std::abs(weight));
  }
  return largest;
}

TEST_CASE("random bits become blocks of the wanted size in every block format") {
  std::mt19937 random(3);
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.block_elems == 1) {
      CHECK(!format.set_scales);
      continue;
    }
    for (const uint8_t fill : {0x00, 0xff, 0x01}) {
      INFO(format.name << " " << int{fill});
      std::vector<std::byte> block(static_cast<size_t>(format.block_bytes), std::byte{fill});
      if (fill == 1) {
        for (std::byte& b : block) b = static_cast<std::byte>(random());
      }
      const BlockScales scales = scales_for(format.type, block.data(), 3, -1.5f);
      // A scale that is a power of two may be half of what is asked for.
      const float product = largest_with(format, block, {scales.scale, 0});
      const float minimum = largest_with(format, block, {0, scales.min});
      const bool random_bits = fill == 1;
      CHECK(product <= 3.01f);
      if (random_bits) CHECK(product >= 1.49f);
      CHECK(minimum <= 1.51f);
      if (random_bits && minimum > 1e-30f) CHECK(minimum >= 1.49f);
    }
  }
}

}  // namespace
}  // namespace skald
