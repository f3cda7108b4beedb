#include "engine/quant/fit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace skald {
namespace {

// Eight weights at a time: n is a multiple of that for every format. The compiler makes of it what
// the CPU has; the eight parts of a sum, and so its rounding, are the same everywhere.
constexpr int kLanes = 8;
using Vec = float __attribute__((vector_size(kLanes * sizeof(float))));

// One version for every x86-64 and one for AVX2, chosen at start. The resolvers run before a
// sanitizer is ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SKALD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define SKALD_CLONES
#endif
#define SKALD_INLINE inline __attribute__((always_inline))

SKALD_INLINE void load(const float* p, Vec& v) { std::memcpy(&v, p, sizeof v); }

SKALD_INLINE float sum(const Vec& v) {
  return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

// The nearest whole number in [lowest, highest], ties to even, for bounds below 2^22. Not a number
// becomes `lowest`, so that it can be turned into an integer.
SKALD_INLINE void to_grid(Vec& x, float lowest, float highest) {
  constexpr float kShift = 0x1.8p23f;
  const Vec low = Vec{} + lowest, high = Vec{} + highest;
  x = x > low ? x : low;
  x = x < high ? x : high;
  x = (x + kShift) - kShift;
}

struct ScaleSums {
  double wq, qq;
};

SKALD_INLINE ScaleSums scale_sums(const float* w, int n, float inverse, float lowest,
                                  float highest) {
  Vec wq{}, qq{};
  for (int i = 0; i < n; i += kLanes) {
    Vec x;
    load(w + i, x);
    Vec q = x * inverse;
    to_grid(q, lowest, highest);
    wq += x * q;
    qq += q * q;
  }
  return {sum(wq), sum(qq)};
}

struct RangeSums {
  double q, qq, wq;
};

SKALD_INLINE RangeSums range_sums(const float* w, int n, float inverse, float min, float highest) {
  Vec qs{}, qq{}, wq{};
  for (int i = 0; i < n; i += kLanes) {
    Vec x;
    load(w + i, x);
    Vec q = (x - min) * inverse;
    to_grid(q, 0, highest);
    qs += q;
    qq += q * q;
    wq += x * q;
  }
  return {sum(qs), sum(qq), sum(wq)};
}

// The scale and minimum for given q, and by how much they lower the sum of squares.
struct RangeSolution {
  double scale = 0, min = 0, gain = 0;
};

RangeSolution solve(const RangeSums& s, double w_sum, int n, bool min_below_zero) {
  RangeSolution out;
  const double determinant = n * s.qq - s.q * s.q;
  if (determinant > 0) {
    out.scale = (n * s.wq - w_sum * s.q) / determinant;
    out.min = (w_sum - out.scale * s.q) / n;
  }
  if (!(determinant > 0) || out.scale < 0 || (min_below_zero && out.min > 0)) {
    out.min = 0;
    out.scale = s.qq > 0 ? std::max(s.wq / s.qq, 0.0) : 0;
    out.gain = out.scale * s.wq;
    return out;
  }
  out.gain = out.min * w_sum + out.scale * s.wq;
  return out;
}

constexpr int kRefinements = 3;

}  // namespace

SKALD_CLONES float fit_scale(const float* w, int n, const ScaleGrid& grid) {
  float largest = 0;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(w[i]) > std::fabs(largest)) largest = w[i];
  }
  if (largest == 0) return 0;
  double best_gain = -1, scale = 0;
  const auto try_inverse = [&](float inverse) {
    const ScaleSums sums = scale_sums(w, n, inverse, grid.lowest, grid.highest);
    if (!(sums.qq > 0)) return false;
    const double gain = sums.wq * sums.wq / sums.qq;
    if (!(gain > best_gain)) return false;
    best_gain = gain;
    scale = sums.wq / sums.qq;
    return true;
  };
  for (const float end : {grid.lowest, grid.highest}) {
    const float direction = end < 0 ? -1.0f : 1.0f;
    for (int i = 0; i < grid.tries; ++i) {
      const float place = end + direction * (static_cast<float>(i) * grid.step - grid.first);
      try_inverse(place / largest);
    }
  }
  for (int i = 0; i < kRefinements && try_inverse(static_cast<float>(1 / scale)); ++i) {
  }
  return static_cast<float>(scale);
}

SKALD_CLONES RangeFit fit_range(const float* w, int n, const RangeGrid& grid) {
  float smallest = w[0], largest = w[0];
  Vec parts{};
  for (int i = 0; i < n; i += kLanes) {
    Vec x;
    load(w + i, x);
    parts += x;
  }
  for (int i = 0; i < n; ++i) {
    smallest = std::min(smallest, w[i]);
    largest = std::max(largest, w[i]);
  }
  const double w_sum = sum(parts);
  if (grid.min_below_zero) smallest = std::min(smallest, 0.0f);
  const float range = largest - smallest;
  if (!(range > 0)) return {0, grid.min_below_zero ? std::min(smallest, 0.0f) : smallest};
  RangeSolution best;
  best.gain = -1;
  const auto try_grid = [&](float inverse, float min) {
    const RangeSums sums = range_sums(w, n, inverse, min, grid.highest);
    const RangeSolution found = solve(sums, w_sum, n, grid.min_below_zero);
    if (!(found.gain > best.gain)) return false;
    best = found;
    return true;
  };
  for (int i = 0; i < grid.tries; ++i) {
    const float steps = grid.highest - grid.first + static_cast<float>(i) * grid.step;
    // Where the range is cut, it is cut at both ends.
    const float cut = std::max(0.0f, 0.5f * (steps - grid.highest)) * range / steps;
    const float min = grid.min_below_zero && smallest == 0 ? smallest : smallest + cut;
    try_grid(steps / range, min);
  }
  for (int i = 0; i < kRefinements; ++i) {
    if (!(best.scale > 0)) break;
    if (!try_grid(static_cast<float>(1 / best.scale), static_cast<float>(best.min))) break;
  }
  return {static_cast<float>(best.scale), static_cast<float>(best.min)};
}

SKALD_CLONES float round_to_grid(const float* w, int n, RangeFit fit, float lowest, float highest,
                                 float* q) {
  const float inverse = fit.scale == 0 ? 0 : 1 / fit.scale;
  Vec error{};
  for (int i = 0; i < n; i += kLanes) {
    Vec x;
    load(w + i, x);
    Vec steps = (x - fit.min) * inverse;
    to_grid(steps, lowest, highest);
    std::memcpy(q + i, &steps, sizeof steps);
    const Vec delta = x - (steps * fit.scale + fit.min);
    error += delta * delta;
  }
  return static_cast<float>(sum(error));
}

}  // namespace skald
