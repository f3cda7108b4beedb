#include "engine/quant/host_fit.h"

#include <cstring>

#include "engine/base/error.h"
#include "engine/quant/host_group.h"

namespace skald {
namespace {

using search::kLanes;
using search::Lanes;
using Group16 = search::HostGroup<16>;
using Group32 = search::HostGroup<32>;

// The `put` argument of search::round_to_grid(): stores the grid's numbers.
struct Store {
  float* q;
  SKALD_HD_INLINE void operator()(int i, const Lanes& v) const {
    std::memcpy(q + i * kLanes, &v, sizeof v);
  }
};

}  // namespace

SKALD_CLONES float fit_scale(const float* w, int n, const ScaleGrid& grid) {
  check(n == 16 || n == 32, "a group has 16 or 32 weights");
  return n == 32 ? search::fit_scale(Group32{w}, grid) : search::fit_scale(Group16{w}, grid);
}

SKALD_CLONES RangeFit fit_range(const float* w, int n, const RangeGrid& grid) {
  check(n == 32, "a group with a minimum has 32 weights");
  return search::fit_range(Group32{w}, grid);
}

SKALD_CLONES float round_to_grid(const float* w, int n, RangeFit fit, float lowest, float highest,
                                 float* q) {
  return n == 32 ? search::round_to_grid(Group32{w}, fit, lowest, highest, Store{q})
                 : search::round_to_grid(Group16{w}, fit, lowest, highest, Store{q});
}

SKALD_CLONES double choose_groups(const float* w, const RangeFit* fits,
                                  search::RangeFactors factors, float highest,
                                  search::RangeGroup* groups) {
  for (int g = 0; g < factors.kGroups; ++g) {
    groups[g] =
        search::choose_group(Group32{w + g * factors.kGroupElems}, fits[g], factors, highest);
  }
  return search::block_error(groups, factors.kGroups);
}

SKALD_CLONES double choose_groups(const float* w, const float* fits, search::ScaleFactor factor,
                                  const ScaleGrid& grid, search::ScaleGroup* groups) {
  for (int g = 0; g < factor.kGroups; ++g) {
    groups[g] = search::choose_group(Group16{w + g * factor.kGroupElems}, fits[g], factor, grid);
  }
  return search::block_error(groups, factor.kGroups);
}

SKALD_CLONES search::RangeFactors next_factors(const float* w, const search::RangeGroup* groups,
                                               search::RangeFactors factors, float highest) {
  search::RangeTerms terms[search::RangeFactors::kGroups];
  for (int g = 0; g < factors.kGroups; ++g) {
    terms[g] = search::terms(Group32{w + g * factors.kGroupElems}, groups[g], factors, highest);
  }
  return search::next_factors(factors, terms);
}

SKALD_CLONES search::ScaleFactor next_factor(const float* w, const search::ScaleGroup* groups,
                                             search::ScaleFactor factor, const ScaleGrid& grid) {
  search::ScaleTerms terms[search::ScaleFactor::kGroups];
  for (int g = 0; g < factor.kGroups; ++g) {
    terms[g] = search::terms(Group16{w + g * factor.kGroupElems}, groups[g], factor, grid);
  }
  return search::next_factor(factor, terms);
}

}  // namespace skald
