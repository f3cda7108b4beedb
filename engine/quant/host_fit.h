// fit_search.h and k_search.h on the host, with the CPU's vector instructions. n is 16 or 32.
// Errors are multiplied by importances, if there are some.
#pragma once

#include "engine/quant/host_weights.h"
#include "engine/quant/k_search.h"

namespace skald {

float fit_scale(HostWeights w, int n, const ScaleGrid& grid);
RangeFit fit_range(HostWeights w, int n, const RangeGrid& grid);

// Sets q[i] to the grid's number nearest to (w[i] - min) / scale and returns the sum of the squared
// errors. If the scale is 0, q[i] is the grid's number nearest to 0.
float round_to_grid(const float* w, int n, RangeFit fit, float lowest, float highest, float* q);

// Chooses groups[g] for each group of a block of 256 weights; returns the block's squared error.
double choose_groups(HostWeights w, const RangeFit* fits, search::RangeFactors factors,
                     float highest, search::RangeGroup* groups);
double choose_groups(HostWeights w, const RangeFit* fits, search::SmallRangeFactors factors,
                     float highest, search::RangeGroup* groups);
double choose_groups(HostWeights w, const float* fits, search::ScaleFactor factor,
                     const ScaleGrid& grid, search::ScaleGroup* groups);

search::RangeFactors next_factors(HostWeights w, const search::RangeGroup* groups,
                                  search::RangeFactors factors, float highest);
search::SmallRangeFactors next_factors(HostWeights w, const search::RangeGroup* groups,
                                       search::SmallRangeFactors factors, float highest);
search::ScaleFactor next_factor(HostWeights w, const search::ScaleGroup* groups,
                                search::ScaleFactor factor, const ScaleGrid& grid);

}  // namespace skald
