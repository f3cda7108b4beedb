// Encoders of IQ3_S and IQ2_S: an entry of a grid gives the magnitudes of several weights at once,
// and each weight has a sign. So the search works on magnitudes: for a scale, it takes the entry
// with the least error among those that lie near the rounded weights.
#include "engine/quant/encode_grids.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "engine/quant/host_group.h"
#include "engine/quant/k_search.h"

namespace skald {
namespace {

struct Iq3Spec {
  static constexpr int kDims = 4, kLevels = 8, kEntries = 512, kBits = 4, kGroup = 32;
  static constexpr float kValues[kLevels] = {1, 3, 5, 7, 9, 11, 13, 15};
  static int entry(int i) { return kIq3Grid.entries[i]; }
};

struct Iq2Spec {
  static constexpr int kDims = 8, kLevels = 3, kEntries = 1024, kBits = 2, kGroup = 16;
  static constexpr float kValues[kLevels] = {1, 3.125f, 5.375f};
  static int entry(int i) { return kIq2SGrid.entries[i]; }
};

// The entries that lie near a point whose coordinates are levels, for each such point.
template <class Spec>
class NearEntries {
 public:
  static constexpr int kNear = 16, kVectors = kNear / search::kLanes;

  NearEntries() : points_(static_cast<size_t>(std::pow(Spec::kLevels, Spec::kDims))) {
    for (int i = 0; i < Spec::kEntries; ++i) {
      for (int j = 0; j < Spec::kDims; ++j) {
        const int level = Spec::entry(i) >> (j * Spec::kBits) & ((1 << Spec::kBits) - 1);
        entries_[i][j] = Spec::kValues[level];
      }
    }
    std::vector<std::pair<float, uint16_t>> order(Spec::kEntries);
    for (size_t p = 0; p < points_.size(); ++p) {
      for (int i = 0; i < Spec::kEntries; ++i) {
        float distance = 0;
        size_t rest = p;
        for (int j = 0; j < Spec::kDims; ++j) {
          const float away = entries_[i][j] - Spec::kValues[rest % Spec::kLevels];
          distance += away * away;
          rest /= Spec::kLevels;
        }
        order[i] = {distance, static_cast<uint16_t>(i)};
      }
      std::partial_sort(order.begin(), order.begin() + kNear, order.end());
      for (int i = 0; i < kNear; ++i) {
        points_[p].entry[i] = order[i].second;
        for (int j = 0; j < Spec::kDims; ++j) {
          points_[p].values[j][i] = entries_[order[i].second][j];
        }
      }
    }
  }

  SKALD_HD_INLINE const float* values(int entry) const { return entries_[entry]; }

  // The entry with the least sum of importance times squared distance from x; h: nullptr, or an
  // importance for each coordinate. Adds the sum to `error`.
  SKALD_HD_INLINE int nearest(const float* x, const float* h, float& error) const {
    using search::Lanes;
    size_t at = 0;
    for (int j = Spec::kDims; j-- > 0;) {
      size_t level = 0;
      for (int l = 0; l + 1 < Spec::kLevels; ++l) {
        level += x[j] > (Spec::kValues[l] + Spec::kValues[l + 1]) / 2;
      }
      at = at * Spec::kLevels + level;
    }
    const Point& point = points_[at];
    float sums[kNear];
    for (int v = 0; v < kVectors; ++v) {
      Lanes sum{}, values;
      for (int j = 0; j < Spec::kDims; ++j) {
        std::memcpy(&values, point.values[j] + v * search::kLanes, sizeof values);
        const Lanes away = values - x[j];
        sum += h ? away * away * h[j] : away * away;
      }
      std::memcpy(sums + v * search::kLanes, &sum, sizeof sum);
    }
    int best = 0;
    for (int i = 1; i < kNear; ++i) best = sums[i] < sums[best] ? i : best;
    error += sums[best];
    return point.entry[best];
  }

 private:
  struct Point {
    float values[Spec::kDims][kNear];
    uint16_t entry[kNear];
  };
  float entries_[Spec::kEntries][Spec::kDims];
  std::vector<Point> points_;
};

// Made when it is first used; that takes some hundredths of a second.
template <class Spec>
const NearEntries<Spec>& near_entries() {
  static const NearEntries<Spec> kNear;
  return kNear;
}

// Magnitudes of a block's weights, of a group of them, or of what an entry gives.
using Magnitudes = HostWeights;

template <class Spec>
struct MagnitudeGroup {
  static constexpr int kParts = Spec::kGroup / Spec::kDims;
  Magnitudes weights;

  // Divides by the scale, and calls put(part, entry). Returns the error of the weights.
  template <class Put>
  SKALD_HD_INLINE float round(float scale, const Put& put) const {
    const NearEntries<Spec>& near = near_entries<Spec>();
    const float inverse = search::inverse_of(scale);
    float error = 0;
    for (int part = 0; part < kParts; ++part) {
      const Magnitudes own = weights.from(part * Spec::kDims);
      float x[Spec::kDims];
      for (int j = 0; j < Spec::kDims; ++j) x[j] = own.w[j] * inverse;
      put(part, near.nearest(x, own.importances, error));
    }
    if (scale == 0) return squares();
    return error * scale * scale;
  }

  // wq² / qq is how much the best scale for these entries reduces the error; wq / qq is that scale.
  SKALD_HD_INLINE search::ScaleTerms terms(float scale) const {
    const NearEntries<Spec>& near = near_entries<Spec>();
    double qq = 0, wq = 0;
    round(scale, [&](int part, int entry) SKALD_INLINE_LAMBDA {
      const Magnitudes own = weights.from(part * Spec::kDims);
      for (int j = 0; j < Spec::kDims; ++j) {
        const float q = near.values(entry)[j];
        const float hq = own.importances ? own.importances[j] * q : q;
        qq += double{hq} * q;
        wq += double{hq} * own.w[j];
      }
    });
    return {qq, wq};
  }

  SKALD_HD_INLINE float fit() const {
    const float largest = *std::max_element(weights.w, weights.w + Spec::kGroup);
    if (!(largest > 0)) return 0;
    constexpr float kHighest = Spec::kValues[Spec::kLevels - 1];
    constexpr int kTries = 18;
    double gain = -1, scale = 0;
    const auto improve = [&](float tried) SKALD_INLINE_LAMBDA {
      const search::ScaleTerms found = terms(tried);
      const double now = found.wa * found.wa / found.aa;
      if (!(now > gain)) return false;
      gain = now;
      scale = found.wa / found.aa;
      return true;
    };
    improve(largest);  // it becomes 1, the lowest value
    // The largest weight becomes a third of the highest value, up to one and a half times it.
    for (int i = 0; i < kTries; ++i) {
      improve(largest / (kHighest * (0.33f + 0.07f * static_cast<float>(i))));
    }
    for (int i = 0; i < search::kRefinements; ++i) {
      if (!improve(static_cast<float>(scale))) break;
    }
    return static_cast<float>(scale);
  }

 private:
  SKALD_HD_INLINE float squares() const {
    float sum = 0;
    for (int i = 0; i < Spec::kGroup; ++i) {
      sum += (weights.importances ? weights.importances[i] : 1) * weights.w[i] * weights.w[i];
    }
    return sum;
  }
};

// A block of 256 weights: magnitude = scale * (1 + 2 * s[g]) * value.
template <class Spec>
struct GridBlock {
  static constexpr int kGroups = 256 / Spec::kGroup, kMost = 15;
  uint16_t scale = 0;  // f16 bits
  int s[kGroups] = {};
  double error = 0;

  static MagnitudeGroup<Spec> group(Magnitudes all, int g) { return {all.from(g * Spec::kGroup)}; }
  float scale_of(int g) const { return f16_to_f32(scale) * static_cast<float>(1 + 2 * s[g]); }

  SKALD_HD_INLINE void choose(Magnitudes all, const float* fits, uint16_t bits) {
    scale = bits;
    error = 0;
    const double factor = f16_to_f32(bits);
    for (int g = 0; g < kGroups; ++g) {
      const int middle = factor == 0 ? 0 : search::to_whole((fits[g] / factor - 1) / 2, 0, kMost);
      float best = std::numeric_limits<float>::infinity();
      int chosen = middle;
      for (s[g] = std::max(middle - 1, 0); s[g] <= std::min(middle + 1, kMost); ++s[g]) {
        const float found = group(all, g).round(scale_of(g), [](int, int) SKALD_INLINE_LAMBDA {});
        if (!(found < best)) continue;
        best = found;
        chosen = s[g];
      }
      s[g] = chosen;
      error += best;
    }
  }

  // The scale with the least error for these s.
  SKALD_HD_INLINE uint16_t next_scale(Magnitudes all) const {
    double aa = 0, wa = 0;
    for (int g = 0; g < kGroups; ++g) {
      const search::ScaleTerms found = group(all, g).terms(scale_of(g));
      const double factor = 1 + 2 * s[g];
      aa += found.aa * factor * factor;
      wa += found.wa * factor;
    }
    return aa > 0 && wa > 0 ? search::factor_bits(wa / aa) : scale;
  }
};

// put(part, entry) receives the entries of the block's parts.
template <class Spec, class Put>
SKALD_HD_INLINE GridBlock<Spec> fit_grid(HostWeights w, const Put& put) {
  using Block = GridBlock<Spec>;
  constexpr int kRounds = 3;
  float magnitudes[256];
  for (int i = 0; i < 256; ++i) magnitudes[i] = search::magnitude(w.w[i]);
  const Magnitudes all{magnitudes, w.importances};
  float fits[Block::kGroups], largest = 0;
  for (int g = 0; g < Block::kGroups; ++g) {
    fits[g] = Block::group(all, g).fit();
    largest = std::max(largest, fits[g]);
  }
  Block best;
  best.choose(all, fits, search::factor_bits(double{largest} / 31));
  for (const double factor : {29.0, 26.0}) {
    Block next;
    next.choose(all, fits, search::factor_bits(double{largest} / factor));
    if (next.error < best.error) best = next;
  }
  for (int round = 0; round < kRounds; ++round) {
    Block next;
    next.choose(all, fits, best.next_scale(all));
    if (!(next.error < best.error)) break;
    best = next;
  }
  for (int g = 0; g < Block::kGroups; ++g) {
    const auto group = Block::group(all, g);
    group.round(best.scale_of(g), [&](int part, int entry)
                                      SKALD_INLINE_LAMBDA { put(g * group.kParts + part, entry); });
  }
  return best;
}

uint8_t sign_bits(const float* w) {
  int bits = 0;
  for (int j = 0; j < 8; ++j) bits |= (w[j] < 0) << j;
  return static_cast<uint8_t>(bits);
}

template <class Block, class Fit>
void put_scales_and_signs(const float* w, const Fit& fit, Block& out) {
  out.scale = fit.scale;
  for (int g = 0; g < Fit::kGroups; g += 2) {
    out.scales[g / 2] = static_cast<uint8_t>(fit.s[g] | fit.s[g + 1] << 4);
  }
  for (int i = 0; i < 32; ++i) out.signs[i] = sign_bits(w + 8 * i);
}

}  // namespace

SKALD_CLONES void encode(HostWeights w, BlockIQ3_S& out) {
  std::memset(out.high, 0, sizeof out.high);
  const auto fit = fit_grid<Iq3Spec>(w, [&](int n, int entry) SKALD_INLINE_LAMBDA {
    out.q[n] = static_cast<uint8_t>(entry & 255);
    out.high[n / 8] = static_cast<uint8_t>(out.high[n / 8] | entry >> 8 << (n % 8));
  });
  put_scales_and_signs(w.w, fit, out);
}

SKALD_CLONES void encode(HostWeights w, BlockIQ2_S& out) {
  std::memset(out.high, 0, sizeof out.high);
  const auto fit = fit_grid<Iq2Spec>(w, [&](int n, int entry) SKALD_INLINE_LAMBDA {
    out.q[n] = static_cast<uint8_t>(entry & 255);
    out.high[n / 4] = static_cast<uint8_t>(out.high[n / 4] | entry >> 8 << (n % 4 * 2));
  });
  put_scales_and_signs(w.w, fit, out);
}

}  // namespace skald
