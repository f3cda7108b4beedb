#include "engine/quant/host_fit.h"

#include <cstring>

#include "engine/base/error.h"

namespace skald {
namespace {

// The compiler maps this vector type to the CPU's registers. The eight partial sums of a sum, and
// so its rounding, are the same on every CPU.
using search::kLanes;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

// One version for every x86-64 and one for AVX2, chosen at program start. Sanitizer builds use a
// single version: the code that chooses runs before a sanitizer is ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SKALD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define SKALD_CLONES
#endif

template <int kCount>
struct HostGroup {
  using Vec = Lanes;
  static constexpr int kElems = kCount;
  const float* w;

  SKALD_HD_INLINE void load(int i, Vec& v) const { std::memcpy(&v, w + i * kLanes, sizeof v); }
  SKALD_HD_INLINE float at(int i) const { return w[i]; }
  SKALD_HD_INLINE static float sum(const Vec& v) {
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
  }
  SKALD_HD_INLINE static void to_grid(Vec& x, float lowest, float highest) {
    constexpr float kShift = 0x1.8p23f;
    const Vec low = Vec{} + lowest, high = Vec{} + highest;
    x = x > low ? x : low;
    x = x < high ? x : high;
    x = (x + kShift) - kShift;
  }
};
using Group16 = HostGroup<16>;
using Group32 = HostGroup<32>;

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
