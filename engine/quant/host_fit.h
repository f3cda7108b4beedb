// fit_search.h and k_search.h on the host, in the vectors that the CPU has. n is 16 or 32.
#pragma once

#include "engine/quant/k_search.h"

namespace skald {

float fit_scale(const float* w, int n, const ScaleGrid& grid);
RangeFit fit_range(const float* w, int n, const RangeGrid& grid);

// q[i], the grid's number nearest to (w[i] - min) / scale; returns the sum of the squared errors.
// A scale of 0 gives the number nearest to 0.
float round_to_grid(const float* w, int n, RangeFit fit, float lowest, float highest, float* q);

// Of groups[g] of a block of 256 weights; returns the block's error.
double choose_groups(const float* w, const RangeFit* fits, search::RangeFactors factors,
                     float highest, search::RangeGroup* groups);
double choose_groups(const float* w, const float* fits, search::ScaleFactor factor,
                     const ScaleGrid& grid, search::ScaleGroup* groups);

search::RangeFactors next_factors(const float* w, const search::RangeGroup* groups,
                                  search::RangeFactors factors, float highest);
search::ScaleFactor next_factor(const float* w, const search::ScaleGroup* groups,
                                search::ScaleFactor factor, const ScaleGrid& grid);

}  // namespace skald
