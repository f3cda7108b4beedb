// Encodes blocks of groups (K formats). Each group's scale (and minimum) is a small whole number
// times a factor common to the block. First each group is fitted alone (fit_search.h). Then factors
// and whole numbers are fitted to each other in turns, which regains most of the accuracy lost by
// rounding a group's scale to six bits. Host and GPU share this code; sums go over a block's groups
// in order.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/quant/fit_search.h"

namespace skald::search {

inline constexpr int kRounds = 2;  // rounds of refitting factors and whole numbers

// Converts a factor to f16. A nonzero factor stays nonzero; otherwise the whole block would become
// 0.
SKALD_HD_INLINE uint16_t factor_bits(double value) {
  const uint16_t bits = f32_to_f16(static_cast<float>(value));
  if ((bits & 0x7fff) != 0 || value == 0) return bits;
  return static_cast<uint16_t>(bits | 1);
}

SKALD_HD_INLINE int to_whole(double value, int lowest, int highest) {
  if (!(value > lowest)) return lowest;
  return value < highest ? static_cast<int>(::lround(value)) : highest;
}

// w = scale * s * q - min * m, with one s and one m for each group, from 0 to kLargest.
template <int kCount, int kLargest>
struct RangeFactorsOf {
  static constexpr int kGroups = kCount, kGroupElems = 256 / kCount, kMost = kLargest;
  uint16_t scale = 0, min = 0;  // f16 bits
};
using RangeFactors = RangeFactorsOf<8, 63>;        // Q4_K and Q5_K
using SmallRangeFactors = RangeFactorsOf<16, 15>;  // Q2_K

struct RangeGroup {
  int s, m;
  float error;

  template <class Factors>
  SKALD_HD_INLINE RangeFit fit(Factors factors) const {
    return {f16_to_f32(factors.scale) * static_cast<float>(s),
            -(f16_to_f32(factors.min) * static_cast<float>(m))};
  }
};

template <class Factors = RangeFactors>
SKALD_HD_INLINE Factors first_factors(const RangeFit* fits) {
  float scale = 0, min = 0;
  for (int g = 0; g < Factors::kGroups; ++g) {
    scale = larger(scale, fits[g].scale);
    min = larger(min, -fits[g].min);
  }
  return {factor_bits(scale / Factors::kMost), factor_bits(min / Factors::kMost)};
}

// The best s and m for given factors: tries the rounded ratios of fit to factors, and their
// neighbours.
template <class Group, class Factors>
SKALD_HD_INLINE RangeGroup choose_group(const Group& w, RangeFit fit, Factors factors,
                                        float highest) {
  constexpr int kMost = Factors::kMost;
  const float scale = f16_to_f32(factors.scale), min = f16_to_f32(factors.min);
  const int s = scale > 0 ? to_whole(double{fit.scale} / scale, 0, kMost) : 0;
  const int m = min > 0 ? to_whole(-double{fit.min} / min, 0, kMost) : 0;
  RangeGroup best = {0, 0, INFINITY};
  for (int i = s > 0 ? s - 1 : 0; i <= (s < kMost ? s + 1 : kMost); ++i) {
    for (int j = m > 0 ? m - 1 : 0; j <= (m < kMost ? m + 1 : kMost); ++j) {
      RangeGroup tried = {i, j, 0};
      tried.error = round_to_grid(w, tried.fit(factors), 0, highest, NotPut());
      if (tried.error < best.error) best = tried;
    }
  }
  return best;
}

// One group's terms in the normal equations of w ≈ scale * a - min * b, with a = s * q and b = m.
struct RangeTerms {
  double aa, ab, bb, wa, wb;
};

template <class Group, class Factors>
SKALD_HD_INLINE RangeTerms terms(const Group& w, RangeGroup group, Factors factors, float highest) {
  const RangeFit fit = group.fit(factors);
  const GridSums sums = grid_sums(w, inverse_of(fit.scale), fit.min, 0, highest);
  const double s = group.s, m = group.m;
  return {s * s * sums.qq, s * m * sums.q, m * m * count_of(w), s * sums.wq, m * weight_sum(w)};
}

// The best factors for unchanged whole numbers.
template <class Factors>
SKALD_HD_INLINE Factors next_factors(Factors factors, const RangeTerms* groups) {
  double aa = 0, ab = 0, bb = 0, wa = 0, wb = 0;
  for (int g = 0; g < Factors::kGroups; ++g) {
    aa += groups[g].aa;
    ab += groups[g].ab;
    bb += groups[g].bb;
    wa += groups[g].wa;
    wb += groups[g].wb;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 1e-9 * aa * bb) {
    const double scale = (wa * bb - wb * ab) / determinant;
    const double min = (wa * ab - wb * aa) / determinant;
    if (scale > 0 && min > 0) return {factor_bits(scale), factor_bits(min)};
  } else if (aa > 0 && bb == 0 && wa > 0) {
    factors.scale = factor_bits(wa / aa);
  }
  return factors;
}

// Q6_K: w = scale * s * q, with one s for each group of 16.
struct ScaleFactor {
  static constexpr int kGroups = 16, kGroupElems = 16;
  uint16_t scale = 0;  // f16 bits
};

struct ScaleGroup {
  int s;
  float error;

  SKALD_HD_INLINE RangeFit fit(ScaleFactor factor) const {
    return {f16_to_f32(factor.scale) * static_cast<float>(s), 0};
  }
};

SKALD_HD_INLINE ScaleFactor first_factor(const float* fits) {
  float largest = 0;
  for (int g = 0; g < ScaleFactor::kGroups; ++g) {
    if (magnitude(fits[g]) > magnitude(largest)) largest = fits[g];
  }
  return {factor_bits(largest / -128)};
}

template <class Group>
SKALD_HD_INLINE ScaleGroup choose_group(const Group& w, float fit, ScaleFactor factor,
                                        const ScaleGrid& grid) {
  constexpr int kLeast = -128, kMost = 127;
  const float scale = f16_to_f32(factor.scale);
  const int s = scale != 0 ? to_whole(double{fit} / scale, kLeast, kMost) : 0;
  ScaleGroup best = {0, INFINITY};
  for (int i = s > kLeast ? s - 1 : kLeast; i <= (s < kMost ? s + 1 : kMost); ++i) {
    ScaleGroup tried = {i, 0};
    tried.error = round_to_grid(w, tried.fit(factor), grid.lowest, grid.highest, NotPut());
    if (tried.error < best.error) best = tried;
  }
  return best;
}

// One group's terms in scale = wa / aa, the least-squares solution of w ≈ scale * a with a = s * q.
struct ScaleTerms {
  double aa, wa;
};

template <class Group>
SKALD_HD_INLINE ScaleTerms terms(const Group& w, ScaleGroup group, ScaleFactor factor,
                                 const ScaleGrid& grid) {
  const GridSums sums =
      scale_sums(w, inverse_of(group.fit(factor).scale), grid.lowest, grid.highest);
  const double s = group.s;
  return {s * s * sums.qq, s * sums.wq};
}

SKALD_HD_INLINE ScaleFactor next_factor(ScaleFactor factor, const ScaleTerms* groups) {
  double aa = 0, wa = 0;
  for (int g = 0; g < ScaleFactor::kGroups; ++g) {
    aa += groups[g].aa;
    wa += groups[g].wa;
  }
  if (aa > 0 && wa != 0) factor.scale = factor_bits(wa / aa);
  return factor;
}

template <class Group>
SKALD_HD_INLINE double block_error(const Group* groups, int count) {
  double error = 0;
  for (int g = 0; g < count; ++g) error += groups[g].error;
  return error;
}

}  // namespace skald::search
