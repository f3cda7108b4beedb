// A group of weights with the CPU's vector instructions, for the searches of fit_search.h and
// k_search.h on the host.
#pragma once

#include <cstring>

#include "engine/quant/host_weights.h"
#include "engine/quant/k_search.h"

// One version for every x86-64 and one for AVX2, chosen at program start. Sanitizer builds use a
// single version: the code that chooses runs before a sanitizer is ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SKALD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define SKALD_CLONES
#endif

// For lambdas that must be compiled for the same CPU as the function that calls them.
#define SKALD_INLINE_LAMBDA __attribute__((always_inline))

namespace skald::search {

// The compiler maps this vector type to the CPU's registers. The eight partial sums of a sum, and
// so its rounding, are the same on every CPU.
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

template <int kCount>
struct HostGroup {
  using Vec = Lanes;
  static constexpr int kElems = kCount;
  const float* w;

  SKALD_HD_INLINE explicit HostGroup(HostWeights from) : w(from.w) {}
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

template <int kCount>
struct WeightedHostGroup : HostGroup<kCount> {
  const float* h;

  SKALD_HD_INLINE explicit WeightedHostGroup(HostWeights from)
      : HostGroup<kCount>(from), h(from.importances) {}
  SKALD_HD_INLINE void importances(int i, Lanes& v) const {
    std::memcpy(&v, h + i * kLanes, sizeof v);
  }
  SKALD_HD_INLINE float importance(int i) const { return h[i]; }
};

// Calls run() with the group of kCount weights, with importances if there are some.
template <int kCount, class Run>
SKALD_HD_INLINE auto with_group(HostWeights from, const Run& run) {
  return from.importances ? run(WeightedHostGroup<kCount>(from)) : run(HostGroup<kCount>(from));
}

}  // namespace skald::search
