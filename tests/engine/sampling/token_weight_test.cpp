#include "engine/sampling/token_weight.h"

#include <cmath>

#include "engine/base/rng.h"
#include "tests/catch.h"

namespace skald {

TEST_CASE("weights are counted in units of 2^-44, rounded to the nearest, ties to even") {
  CHECK(weight_units(0) == 0);
  CHECK(weight_units(1) == uint64_t{1} << 44);
  CHECK(weight_units(0x1p-44f) == 1);
  CHECK(weight_units(0x1p-45f) == 0);
  CHECK(weight_units(1.5f * 0x1p-44f) == 2);
  CHECK(weight_units(2.5f * 0x1p-44f) == 2);
  CHECK(weight_units(std::nextafter(0x1p-45f, 1.0f)) == 1);
  for (int i = 0; i < 100000; ++i) {
    const auto weight = static_cast<float>(std::exp(-40 * uniform(1, 2, i)));
    const double units = std::nearbyint(double{weight} * 0x1p44);
    REQUIRE(weight_units(weight) == static_cast<uint64_t>(units));
  }
}

TEST_CASE("drawn_weight and nucleus_weight never exceed the total") {
  constexpr double kMostU = 1 - 0x1p-53;
  const float most_share = std::nextafter(1.0f, 0.0f);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t total = random_words(1, 2, i).word[0] |
                           uint64_t{random_words(1, 3, i).word[0]} << (i % 32) | uint64_t{1} << 44;
    REQUIRE(drawn_weight(kMostU, total) <= total);
    REQUIRE(nucleus_weight(most_share, total) <= total);
  }
  const uint64_t most = static_cast<uint64_t>(kMostWeighedTokens) << 44;
  for (const uint64_t total : {most, most - 1, uint64_t{1} << 63, (uint64_t{1} << 63) - 1}) {
    CHECK(drawn_weight(kMostU, total) <= total);
    CHECK(nucleus_weight(most_share, total) <= total);
  }
  CHECK(drawn_weight(0, most) == 1);
  CHECK(nucleus_weight(1e-45f, uint64_t{1} << 44) == 1);
}

}  // namespace skald
