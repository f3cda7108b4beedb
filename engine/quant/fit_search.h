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
    qs += q;
    qq += q * q;
    wq += x * q;
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
    qq += q * q;
    wq += x * q;
  }
  return {0, Group::sum(qq), Group::sum(wq)};
}

// The factor that maps a weight to the grid.
SKALD_HD_INLINE float inverse_of(float scale) { return scale == 0 ? 0 : 1 / scale; }

// Returns the sum of the squared errors. put(i, v) receives the grid's numbers of the i-th Vec.
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
    error += delta * delta;
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

template <class Group>
SKALD_HD_INLINE float fit_scale(const Group& w, const ScaleGrid& grid) {
  float largest = 0;
  for (int i = 0; i < Group::kElems; ++i) {
    const float x = w.at(i);
    if (magnitude(x) > magnitude(largest)) largest = x;
  }
  if (largest == 0) return 0;
  ScaleSearch best;
  for (int i = 0; i < 2 * grid.tries; ++i) {
    const bool below = i < grid.tries;
    const float end = below ? grid.lowest : grid.highest;
    const float beyond = static_cast<float>(below ? i : i - grid.tries) * grid.step - grid.first;
    const float place = below ? end - beyond : end + beyond;
    best.improve(w, grid, place / largest);
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

SKALD_HD_INLINE RangeSolution solve(const GridSums& sums, double w_sum, int n, bool below_zero) {
  const double q = sums.q, qq = sums.qq, wq = sums.wq;
  RangeSolution out = {0, 0, 0};
  const double determinant = n * qq - q * q;
  if (determinant > 0) {
    out.scale = (n * wq - w_sum * q) / determinant;
    out.min = (w_sum - out.scale * q) / n;
  }
  if (!(determinant > 0) || out.scale < 0 || (below_zero && out.min > 0)) {
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
    parts += x;
  }
  return Group::sum(parts);
}

template <class Group>
SKALD_HD_INLINE bool improve(RangeSolution& best, const Group& w, double w_sum,
                             const RangeGrid& grid, float inverse, float min) {
  const RangeSolution found =
      solve(grid_sums(w, inverse, min, 0, grid.highest), w_sum, Group::kElems, grid.min_below_zero);
  if (!(found.gain > best.gain)) return false;
  best = found;
  return true;
}

template <class Group>
SKALD_HD_INLINE RangeFit fit_range(const Group& w, const RangeGrid& grid) {
  float smallest = w.at(0), largest = smallest;
  for (int i = 1; i < Group::kElems; ++i) {
    smallest = smaller(smallest, w.at(i));
    largest = larger(largest, w.at(i));
  }
  const double w_sum = weight_sum(w);
  if (grid.min_below_zero) smallest = smaller(smallest, 0);
  const float range = largest - smallest;
  if (!(range > 0)) return {0, grid.min_below_zero ? smaller(smallest, 0) : smallest};
  RangeSolution best;
  for (int i = 0; i < grid.tries; ++i) {
    const float steps = grid.highest - grid.first + static_cast<float>(i) * grid.step;
    // A candidate that cuts the range cuts it equally at both ends.
    const float cut = larger(0, 0.5f * (steps - grid.highest)) * range / steps;
    const float min = grid.min_below_zero && smallest == 0 ? smallest : smallest + cut;
    improve(best, w, w_sum, grid, steps / range, min);
  }
  for (int i = 0; i < kRefinements; ++i) {
    if (!(best.scale > 0)) break;
    if (!improve(best, w, w_sum, grid, static_cast<float>(1 / best.scale),
                 static_cast<float>(best.min))) {
      break;
    }
  }
  return {static_cast<float>(best.scale), static_cast<float>(best.min)};
}

}  // namespace skald::search
