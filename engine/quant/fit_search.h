// The searches of fit.h on one group of weights, shared by the host and a GPU thread. The two
// differ only in how they hold eight floats, and they produce the same bits: every sum has eight
// partial sums that are added in one fixed order, and nothing is contracted (-ffp-contract=off,
// --fmad=false).
//
// A Group has kElems weights and a type Vec of eight floats with the usual operators:
//   void load(i, v)                   loads the i-th eight weights
//   float at(i)                       weight i
//   float sum(v)                      ((v0 + v4) + (v1 + v5)) + ((v2 + v6) + (v3 + v7))
//   void to_grid(v, lowest, highest)  rounds to the nearest whole numbers in [lowest, highest],
//       ties to even, for bounds below 2^22; NaN becomes `lowest`, so that the result fits an int
// A Group may have importances, one for each weight and above 0: its errors are then multiplied by
// them, and so are the terms of all sums.
//   void importances(i, v)            loads those of the i-th eight weights
//   float importance(i)               that of weight i
#pragma once

#include "engine/base/half.h"
#include "engine/quant/fit.h"

#ifdef __CUDACC__
#define SKALD_HD_INLINE __host__ __device__ __forceinline__
#else
#define SKALD_HD_INLINE inline __attribute__((always_inline))
#endif

namespace skald::search {

inline constexpr int kLanes = 8;
inline constexpr int kRefinements = 3;

SKALD_HD_INLINE float magnitude(float x) { return bits_to_f32(f32_to_bits(x) & 0x7fffffffu); }
SKALD_HD_INLINE float smaller(float a, float b) { return b < a ? b : a; }
SKALD_HD_INLINE float larger(float a, float b) { return a < b ? b : a; }

template <class Group>
inline constexpr bool kIsWeighted = requires(const Group& group, typename Group::Vec& v) {
  group.importances(0, v);
};

// Multiplies a sum's term, which belongs to the i-th eight weights, by their importances.
template <class Group, class Vec>
SKALD_HD_INLINE void weigh(const Group& w, int i, Vec& term) {
  if constexpr (kIsWeighted<Group>) {
    Vec h;
    w.importances(i, h);
    term = term * h;
  }
}

// Sums over a group, where q is the grid's number nearest to (w - min) * inverse.
struct GridSums {
  float q, qq, wq;
};

template <class Group>
SKALD_HD_INLINE GridSums grid_sums(const Group& w, float inverse, float min, float lowest,
                                   float highest) {
  using Vec = typename Group::Vec;
  Vec qs{}, qq{}, wq{};
  for (int i = 0; i < Group::kElems / kLanes; ++i) {
    Vec x;
    w.load(i, x);
    Vec q = (x - min) * inverse;
    Group::to_grid(q, lowest, highest);
    Vec hq = q;
    weigh(w, i, hq);
    qs += hq;
    qq += hq * q;
    wq += x * hq;
  }
  return {Group::sum(qs), Group::sum(qq), Group::sum(wq)};
}

// grid_sums() with a minimum of 0; the sum of q is not computed.
template <class Group>
SKALD_HD_INLINE GridSums scale_sums(const Group& w, float inverse, float lowest, float highest) {
  using Vec = typename Group::Vec;
  Vec qq{}, wq{};
  for (int i = 0; i < Group::kElems / kLanes; ++i) {
    Vec x;
    w.load(i, x);
    Vec q = x * inverse;
    Group::to_grid(q, lowest, highest);
    Vec hq = q;
    weigh(w, i, hq);
    qq += hq * q;
    wq += x * hq;
  }
  return {0, Group::sum(qq), Group::sum(wq)};
}

// The factor that maps a weight to the grid.
SKALD_HD_INLINE float inverse_of(float scale) { return scale == 0 ? 0 : 1 / scale; }

// Returns the sum of the squared errors, each times its importance. put(i, v) receives the grid's
// numbers of the i-th Vec.
template <class Group, class Put>
SKALD_HD_INLINE float round_to_grid(const Group& w, RangeFit fit, float lowest, float highest,
                                    const Put& put) {
  using Vec = typename Group::Vec;
  const float inverse = inverse_of(fit.scale);
  Vec error{};
  for (int i = 0; i < Group::kElems / kLanes; ++i) {
    Vec x;
    w.load(i, x);
    Vec steps = (x - fit.min) * inverse;
    Group::to_grid(steps, lowest, highest);
    put(i, steps);
    const Vec delta = x - (steps * fit.scale + fit.min);
    Vec term = delta;
    weigh(w, i, term);
    error += term * delta;
  }
  return Group::sum(error);
}

struct NotPut {
  template <class Vec>
  SKALD_HD_INLINE void operator()(int, const Vec&) const {}
};

struct ScaleSearch {
  double gain = -1, scale = 0;

  template <class Group>
  SKALD_HD_INLINE bool improve(const Group& w, const ScaleGrid& grid, float inverse) {
    const GridSums found = scale_sums(w, inverse, grid.lowest, grid.highest);
    const double wq = found.wq, qq = found.qq;
    if (!(qq > 0)) return false;
    const double now = wq * wq / qq;
    if (!(now > gain)) return false;
    gain = now;
    scale = wq / qq;
    return true;
  }
};

// The number of weights, or the sum of their importances.
template <class Group>
SKALD_HD_INLINE double count_of(const Group& w) {
  if constexpr (kIsWeighted<Group>) {
    typename Group::Vec parts{}, h;
    for (int i = 0; i < Group::kElems / kLanes; ++i) {
      w.importances(i, h);
      parts += h;
    }
    return Group::sum(parts);
  } else {
    return Group::kElems;
  }
}

// The importance that a weight needs for the second search of a group with importances. The first
// search goes by the outermost weights, of any importance.
template <class Group>
SKALD_HD_INLINE float least_that_matters(const Group& w) {
  return static_cast<float>(count_of(w) / (4 * Group::kElems));
}

// How many points a search tries for each of its grid's. Groups with importances are harder to fit.
template <class Group>
inline constexpr int kDensity = kIsWeighted<Group> ? 2 : 1;

// Tries to map `largest` to points near each end of the grid.
template <class Group>
SKALD_HD_INLINE void search_scale(ScaleSearch& best, const Group& w, const ScaleGrid& grid,
                                  float largest) {
  constexpr int kMore = kDensity<Group>;
  const int tries = grid.tries * kMore;
  const float step = grid.step / kMore;
  for (int i = 0; i < 2 * tries; ++i) {
    const bool below = i < tries;
    const float end = below ? grid.lowest : grid.highest;
    const float beyond = static_cast<float>(below ? i : i - tries) * step - grid.first;
    const float place = below ? end - beyond : end + beyond;
    best.improve(w, grid, place / largest);
  }
}

template <class Group>
SKALD_HD_INLINE float fit_scale(const Group& w, const ScaleGrid& grid) {
  float largest = 0;
  for (int i = 0; i < Group::kElems; ++i) {
    const float x = w.at(i);
    if (magnitude(x) > magnitude(largest)) largest = x;
  }
  if (largest == 0) return 0;
  ScaleSearch best;
  search_scale(best, w, grid, largest);
  if constexpr (kIsWeighted<Group>) {
    const float least = least_that_matters(w);
    float second = 0;
    for (int i = 0; i < Group::kElems; ++i) {
      const float x = w.importance(i) >= least ? w.at(i) : 0;
      if (magnitude(x) > magnitude(second)) second = x;
    }
    if (second != 0 && second != largest) search_scale(best, w, grid, second);
  }
  for (int i = 0; i < kRefinements; ++i) {
    if (!best.improve(w, grid, static_cast<float>(1 / best.scale))) break;
  }
  return static_cast<float>(best.scale);
}

// The best scale and minimum for given q, and how much they reduce the sum of squared errors.
struct RangeSolution {
  double scale = 0, min = 0, gain = -1;
};

// Sums over a group that do not depend on a grid: of the weights, and of 1.
struct WeightSums {
  double w, n;
};

template <class Group>
SKALD_HD_INLINE RangeSolution solve(const GridSums& sums, WeightSums known, bool below_zero) {
  const double q = sums.q, qq = sums.qq, wq = sums.wq, w_sum = known.w, n = known.n;
  RangeSolution out = {0, 0, 0};
  const double determinant = n * qq - q * q;
  double least = 0;
  // Sums of whole numbers are exact. Others are rounded, and differences that small mean nothing.
  if constexpr (kIsWeighted<Group>) least = 1e-5 * n * qq;
  if (determinant > least) {
    out.scale = (n * wq - w_sum * q) / determinant;
    out.min = (w_sum - out.scale * q) / n;
  }
  if (!(determinant > least) || out.scale < 0 || (below_zero && out.min > 0)) {
    out.min = 0;
    out.scale = qq > 0 && wq > 0 ? wq / qq : 0;
    out.gain = out.scale * wq;
    return out;
  }
  out.gain = out.min * w_sum + out.scale * wq;
  return out;
}

template <class Group>
SKALD_HD_INLINE float weight_sum(const Group& w) {
  typename Group::Vec parts{}, x;
  for (int i = 0; i < Group::kElems / kLanes; ++i) {
    w.load(i, x);
    weigh(w, i, x);
    parts += x;
  }
  return Group::sum(parts);
}

template <class Group>
SKALD_HD_INLINE bool improve(RangeSolution& best, const Group& w, WeightSums known,
                             const RangeGrid& grid, float inverse, float min) {
  const RangeSolution found =
      solve<Group>(grid_sums(w, inverse, min, 0, grid.highest), known, grid.min_below_zero);
  if (!(found.gain > best.gain)) return false;
  best = found;
  return true;
}

// Tries to map the weights from `smallest` to `largest` to the grid's range and to wider ones.
template <class Group>
SKALD_HD_INLINE void search_range(RangeSolution& best, const Group& w, WeightSums known,
                                  const RangeGrid& grid, float smallest, float range) {
  constexpr int kMore = kDensity<Group>;
  for (int i = 0; i < grid.tries * kMore; ++i) {
    const float steps = grid.highest - grid.first + static_cast<float>(i) * (grid.step / kMore);
    // A candidate that cuts the range cuts it equally at both ends.
    const float cut = larger(0, 0.5f * (steps - grid.highest)) * range / steps;
    const float min = grid.min_below_zero && smallest == 0 ? smallest : smallest + cut;
    improve(best, w, known, grid, steps / range, min);
  }
}

template <class Group>
SKALD_HD_INLINE RangeFit fit_range(const Group& w, const RangeGrid& grid) {
  float smallest = w.at(0), largest = smallest;
  for (int i = 1; i < Group::kElems; ++i) {
    smallest = smaller(smallest, w.at(i));
    largest = larger(largest, w.at(i));
  }
  const WeightSums known = {weight_sum(w), count_of(w)};
  if (grid.min_below_zero) smallest = smaller(smallest, 0);
  const float range = largest - smallest;
  if (!(range > 0)) return {0, grid.min_below_zero ? smaller(smallest, 0) : smallest};
  RangeSolution best;
  search_range(best, w, known, grid, smallest, range);
  if constexpr (kIsWeighted<Group>) {
    const float least = least_that_matters(w);
    float low = largest, high = smallest;
    for (int i = 0; i < Group::kElems; ++i) {
      if (w.importance(i) < least) continue;
      low = smaller(low, w.at(i));
      high = larger(high, w.at(i));
    }
    if (grid.min_below_zero) low = smaller(low, 0);
    if (high > low && high - low < range) search_range(best, w, known, grid, low, high - low);
  }
  for (int i = 0; i < kRefinements; ++i) {
    if (!(best.scale > 0)) break;
    if (!improve(best, w, known, grid, static_cast<float>(1 / best.scale),
                 static_cast<float>(best.min))) {
      break;
    }
  }
  return {static_cast<float>(best.scale), static_cast<float>(best.min)};
}

}  // namespace skald::search
