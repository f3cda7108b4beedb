// The weight of a token in a draw: e^((logit - best) / temperature), rounded to a multiple of 2^-44
// and counted in these units. Sums of integers have no rounding, so they are the same in any order:
// on one thread, in vectors, or on a GPU. The best token weighs 1; a token that weighs less than
// 2^-45 is never drawn.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "engine/base/exp.h"
#include "engine/base/half.h"

namespace skald {

// The most tokens whose weights can be added without overflow.
inline constexpr int64_t kMostWeighedTokens = (int64_t{1} << 20) - 1;

// 0 <= weight <= 1, to the nearest unit, ties to even.
SKALD_HD inline uint64_t weight_units(float weight) {
#ifdef __CUDA_ARCH__
  return __float2ull_rn(weight * 0x1p44f);
#else
  // The unit is the last bit of doubles from 256 to 512; unlike a conversion, this vectorizes.
  constexpr double kBase = 256;
  return std::bit_cast<uint64_t>(kBase + double{weight}) - std::bit_cast<uint64_t>(kBase);
#endif
}

// logit <= best; best is finite, logit may be -inf; temperature > 0.
SKALD_HD inline uint64_t token_weight(float logit, float best, float temperature) {
  return weight_units(exp_nonpositive((logit - best) / temperature));
}

// The weight of the nucleus of top-p: tokens are kept, best first, until they weigh at least this.
SKALD_HD inline uint64_t nucleus_weight(float share, uint64_t total) {
  const double weight = ceil(double{share} * static_cast<double>(total));
  return weight < 1 ? 1 : static_cast<uint64_t>(weight);
}

// 0 <= u < 1 draws the first token, best first, with which the sum reaches at least this. Never
// above `total`: u is a multiple of 2^-53, which leaves room for the rounding of `total`.
SKALD_HD inline uint64_t drawn_weight(double u, uint64_t total) {
  return static_cast<uint64_t>(u * static_cast<double>(total)) + 1;
}

// log(e^logit / sum of e^logits), if `total` is the sum of token_weight() at temperature 1.
inline float log_share(float logit, float best, uint64_t total) {
  const double log_total = double{best} + std::log(static_cast<double>(total) * 0x1p-44);
  return static_cast<float>(logit - log_total);
}

}  // namespace skald
