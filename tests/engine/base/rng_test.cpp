#include "engine/base/rng.h"

#include <array>
#include <bit>
#include <functional>
#include <set>
#include <vector>

#include "tests/catch.h"
#include "tests/statistics.h"

namespace skald {
namespace {

using test::goodness_of_fit;
using test::plausible;

bool same(const RandomWords& a, const std::array<uint32_t, 4>& b) {
  return a.word[0] == b[0] && a.word[1] == b[1] && a.word[2] == b[2] && a.word[3] == b[3];
}

// The p-value of pairs (number(2i), number(2i + 1)), which should be uniform over 16 x 16 cells.
double pair_p_value(int pairs, const std::function<double(int)>& number) {
  std::vector<int64_t> counts(256);
  for (int i = 0; i < pairs; ++i) {
    const int a = static_cast<int>(number(2 * i) * 16);
    const int b = static_cast<int>(number(2 * i + 1) * 16);
    ++counts[a * 16 + b];
  }
  return goodness_of_fit(counts, std::vector<double>(256, 1.0 / 256));
}

}  // namespace

TEST_CASE("Philox4x32-10 gives the known answers of its authors") {
  CHECK(same(philox4x32_10({{0, 0, 0, 0}}, 0), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  CHECK(same(philox4x32_10({{ones, ones, ones, ones}}, ~uint64_t{0}),
             {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK(same(philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822),
             {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_CASE("every bit of seed, request, position and draw changes the random number") {
  CHECK(same(random_words(0x299f31d0a4093822, 0x0370734413198a2e, 0x08d3243f6a88, 0x85a3),
             {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  std::set<double> seen{uniform(0, 0, 0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t one = uint64_t{1} << bit;
    CHECK(seen.insert(uniform(one, 0, 0, 0)).second);
    CHECK(seen.insert(uniform(0, one, 0, 0)).second);
    if (bit < 48) CHECK(seen.insert(uniform(0, 0, static_cast<int64_t>(one), 0)).second);
    if (bit < 16) CHECK(seen.insert(uniform(0, 0, 0, static_cast<uint16_t>(one))).second);
  }
}

TEST_CASE("uniform numbers are the upper 53 bits of the first two words") {
  const uint64_t bits = 0xe169c58d6627e8d5;  // the known answer for zeros
  CHECK(uniform(0, 0, 0) == static_cast<double>(bits >> 11) / 9007199254740992.0);
}

TEST_CASE("uniform numbers lie in [0, 1) and fill the range evenly") {
  std::vector<int64_t> counts(1000);
  for (int i = 0; i < 300000; ++i) {
    const double u = uniform(7, 1, i);
    REQUIRE((u >= 0 && u < 1));
    ++counts[static_cast<size_t>(u * 1000)];
  }
  CHECK(plausible(goodness_of_fit(counts, std::vector<double>(1000, 1e-3))));
}

TEST_CASE(
    "each of the 128 bits is set half of the time and equals its neighbour half of the time") {
  constexpr int kDraws = 40000;
  std::vector<std::array<uint64_t, 2>> draws(kDraws);
  for (int i = 0; i < kDraws; ++i) {
    const RandomWords r = random_words(3, 5, i);
    draws[i] = {uint64_t{r.word[1]} << 32 | r.word[0], uint64_t{r.word[3]} << 32 | r.word[2]};
  }
  const std::array<double, 2> even{0.5, 0.5};
  for (int bit = 0; bit < 128; ++bit) {
    int64_t set = 0;
    int64_t agrees = 0;  // with the next bit
    const int next = (bit + 1) % 128;
    for (const auto& draw : draws) {
      const int value = draw[bit / 64] >> (bit % 64) & 1;
      set += value;
      agrees += value == static_cast<int>(draw[next / 64] >> (next % 64) & 1);
    }
    CHECK(goodness_of_fit(std::array<int64_t, 2>{set, kDraws - set}, even) > 1e-6);
    CHECK(goodness_of_fit(std::array<int64_t, 2>{agrees, kDraws - agrees}, even) > 1e-6);
  }
}

TEST_CASE("numbers of neighbouring positions, requests, draws and seeds are independent") {
  constexpr int kPairs = 200000;
  CHECK(plausible(pair_p_value(kPairs, [](int i) { return uniform(1, 1, i); })));
  CHECK(plausible(pair_p_value(kPairs, [](int i) { return uniform(1, i, 1); })));
  CHECK(plausible(pair_p_value(kPairs, [](int i) { return uniform(i, 1, 1); })));
  CHECK(plausible(pair_p_value(
      kPairs, [](int i) { return uniform(1, 1, i / 2, static_cast<uint16_t>(i % 2)); })));
  CHECK(plausible(pair_p_value(kPairs, [](int i) { return uniform(1, i % 2, i / 2); })));
}

TEST_CASE("changing one bit of the counter changes half of the output bits") {
  int64_t changed = 0;
  constexpr int kTrials = 2000;
  for (int i = 0; i < kTrials; ++i) {
    const RandomWords a = random_words(11, 22, i);
    const RandomWords b = random_words(11, 22, i ^ (1 << i % 20));
    for (int w = 0; w < 4; ++w) changed += std::popcount(a.word[w] ^ b.word[w]);
  }
  const int64_t bits = int64_t{kTrials} * 128;
  CHECK(goodness_of_fit(std::array<int64_t, 2>{changed, bits - changed},
                        std::array<double, 2>{0.5, 0.5}) > 1e-6);
}

TEST_CASE("chi-square p-values agree with printed tables") {
  CHECK(test::chi_square_p_value(3.841458821, 1) == Approx(0.05).epsilon(1e-6));
  CHECK(test::chi_square_p_value(18.30703805, 10) == Approx(0.05).epsilon(1e-6));
  CHECK(test::chi_square_p_value(149.4492528, 100) == Approx(0.001).epsilon(1e-6));
  CHECK(test::chi_square_p_value(2, 2) == Approx(std::exp(-1.0)).epsilon(1e-12));
  CHECK(test::chi_square_p_value(0.0039321400, 1) == Approx(0.95).epsilon(1e-6));
  const std::array<int64_t, 3> counts{1, 0, 9};
  CHECK(goodness_of_fit(counts, std::array<double, 3>{0, 0.1, 0.9}) == 0);
}

}  // namespace skald
