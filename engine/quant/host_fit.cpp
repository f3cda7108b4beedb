#include "engine/quant/host_fit.h"

#include <cstring>

#include "engine/base/error.h"
#include "engine/quant/host_group.h"

namespace skald {
namespace {

using search::kLanes;
using search::Lanes;
using search::RangeFactors;
using search::SmallRangeFactors;
using search::with_group;

// The `put` argument of search::round_to_grid(): stores the grid's numbers.
struct Store {
  float* q;
  SKALD_HD_INLINE void operator()(int i, const Lanes& v) const {
    std::memcpy(q + i * kLanes, &v, sizeof v);
  }
};

template <class Factors>
SKALD_HD_INLINE double choose_all(HostWeights w, const RangeFit* fits, Factors factors,
                                  float highest, search::RangeGroup* groups) {
  for (int g = 0; g < Factors::kGroups; ++g) {
    groups[g] = with_group<Factors::kGroupElems>(
        w.from(g * Factors::kGroupElems), [&](const auto& group) SKALD_INLINE_LAMBDA {
          return search::choose_group(group, fits[g], factors, highest);
        });
  }
  return search::block_error(groups, Factors::kGroups);
}

template <class Factors>
SKALD_HD_INLINE Factors next_of(HostWeights w, const search::RangeGroup* groups, Factors factors,
                                float highest) {
  search::RangeTerms terms[Factors::kGroups];
  for (int g = 0; g < Factors::kGroups; ++g) {
    terms[g] = with_group<Factors::kGroupElems>(
        w.from(g * Factors::kGroupElems), [&](const auto& group) SKALD_INLINE_LAMBDA {
          return search::terms(group, groups[g], factors, highest);
        });
  }
  return search::next_factors(factors, terms);
}

}  // namespace

SKALD_CLONES float fit_scale(HostWeights w, int n, const ScaleGrid& grid) {
  check(n == 16 || n == 32, "a group has 16 or 32 weights");
  const auto fit = [&](const auto& group)
                       SKALD_INLINE_LAMBDA { return search::fit_scale(group, grid); };
  return n == 32 ? with_group<32>(w, fit) : with_group<16>(w, fit);
}

SKALD_CLONES RangeFit fit_range(HostWeights w, int n, const RangeGrid& grid) {
  check(n == 16 || n == 32, "a group has 16 or 32 weights");
  const auto fit = [&](const auto& group)
                       SKALD_INLINE_LAMBDA { return search::fit_range(group, grid); };
  return n == 32 ? with_group<32>(w, fit) : with_group<16>(w, fit);
}

SKALD_CLONES float round_to_grid(const float* w, int n, RangeFit fit, float lowest, float highest,
                                 float* q) {
  using search::HostGroup;
  const HostWeights all{w};
  return n == 32 ? search::round_to_grid(HostGroup<32>(all), fit, lowest, highest, Store{q})
                 : search::round_to_grid(HostGroup<16>(all), fit, lowest, highest, Store{q});
}

SKALD_CLONES double choose_groups(HostWeights w, const RangeFit* fits, RangeFactors factors,
                                  float highest, search::RangeGroup* groups) {
  return choose_all(w, fits, factors, highest, groups);
}
SKALD_CLONES double choose_groups(HostWeights w, const RangeFit* fits, SmallRangeFactors factors,
                                  float highest, search::RangeGroup* groups) {
  return choose_all(w, fits, factors, highest, groups);
}

SKALD_CLONES double choose_groups(HostWeights w, const float* fits, search::ScaleFactor factor,
                                  const ScaleGrid& grid, search::ScaleGroup* groups) {
  for (int g = 0; g < factor.kGroups; ++g) {
    groups[g] = with_group<search::ScaleFactor::kGroupElems>(
        w.from(g * factor.kGroupElems), [&](const auto& group) SKALD_INLINE_LAMBDA {
          return search::choose_group(group, fits[g], factor, grid);
        });
  }
  return search::block_error(groups, factor.kGroups);
}

SKALD_CLONES RangeFactors next_factors(HostWeights w, const search::RangeGroup* groups,
                                       RangeFactors factors, float highest) {
  return next_of(w, groups, factors, highest);
}
SKALD_CLONES SmallRangeFactors next_factors(HostWeights w, const search::RangeGroup* groups,
                                            SmallRangeFactors factors, float highest) {
  return next_of(w, groups, factors, highest);
}

SKALD_CLONES search::ScaleFactor next_factor(HostWeights w, const search::ScaleGroup* groups,
                                             search::ScaleFactor factor, const ScaleGrid& grid) {
  search::ScaleTerms terms[search::ScaleFactor::kGroups];
  for (int g = 0; g < factor.kGroups; ++g) {
    terms[g] = with_group<search::ScaleFactor::kGroupElems>(
        w.from(g * factor.kGroupElems), [&](const auto& group) SKALD_INLINE_LAMBDA {
          return search::terms(group, groups[g], factor, grid);
        });
  }
  return search::next_factor(factor, terms);
}

}  // namespace skald
