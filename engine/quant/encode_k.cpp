// The formats with 256 weights to a block: groups, whose own scales (and minimums) are small whole
// numbers times a common one. First each group is fitted for itself, then the common factors and
// the whole numbers are fitted to each other in turns, which wins back most of what rounding a
// group's scale to six bits costs.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/quant/encode.h"
#include "engine/quant/fit.h"

namespace skald {
namespace {

constexpr int kElems = 256;
constexpr int kRounds = 2;  // of fitting common factors and groups to each other

// As f16, and not 0 where it was more: a group would vanish.
uint16_t factor_bits(double value) {
  const uint16_t bits = f32_to_f16(static_cast<float>(value));
  if ((bits & 0x7fff) != 0 || value == 0) return bits;
  return static_cast<uint16_t>(bits | 1);
}

int to_whole(double value, int lowest, int highest) {
  if (!(value > lowest)) return lowest;
  return value < highest ? static_cast<int>(std::lround(value)) : highest;
}

// Q4_K and Q5_K before packing: w = scale * s[g] * q - min * m[g].
struct RangeBlock {
  static constexpr int kGroups = 8, kGroupElems = 32, kMost = 63;
  uint16_t scale = 0, min = 0;
  int s[kGroups] = {}, m[kGroups] = {};
  float q[kElems] = {};
  double error = INFINITY;
};

// The best s and m of every group for given factors, looking around what the fits ask for.
void choose_groups(const float* w, const RangeFit* fits, float highest, RangeBlock& b) {
  const float scale = f16_to_f32(b.scale), min = f16_to_f32(b.min);
  b.error = 0;
  for (int g = 0; g < RangeBlock::kGroups; ++g) {
    const float* group = w + g * RangeBlock::kGroupElems;
    const int s = scale > 0 ? to_whole(double{fits[g].scale} / scale, 0, RangeBlock::kMost) : 0;
    const int m = min > 0 ? to_whole(-double{fits[g].min} / min, 0, RangeBlock::kMost) : 0;
    float best = INFINITY;
    for (int i = std::max(s - 1, 0); i <= std::min(s + 1, RangeBlock::kMost); ++i) {
      for (int j = std::max(m - 1, 0); j <= std::min(m + 1, RangeBlock::kMost); ++j) {
        float q[RangeBlock::kGroupElems];
        const RangeFit fit = {scale * static_cast<float>(i), -(min * static_cast<float>(j))};
        const float error = round_to_grid(group, RangeBlock::kGroupElems, fit, 0, highest, q);
        if (!(error < best)) continue;
        best = error;
        b.s[g] = i;
        b.m[g] = j;
        std::copy_n(q, RangeBlock::kGroupElems, b.q + g * RangeBlock::kGroupElems);
      }
    }
    b.error += best;
  }
}

// The factors that fit best with all whole numbers as they are.
void choose_factors(const float* w, RangeBlock& b) {
  double aa = 0, ab = 0, bb = 0, wa = 0, wb = 0;  // of w ≈ scale * a - min * b
  for (int g = 0; g < RangeBlock::kGroups; ++g) {
    double q_sum = 0, qq = 0, wq = 0, w_sum = 0;
    for (int i = g * RangeBlock::kGroupElems; i < (g + 1) * RangeBlock::kGroupElems; ++i) {
      q_sum += b.q[i];
      qq += double{b.q[i]} * b.q[i];
      wq += double{w[i]} * b.q[i];
      w_sum += w[i];
    }
    const double s = b.s[g], m = b.m[g];
    aa += s * s * qq;
    ab += s * m * q_sum;
    bb += m * m * RangeBlock::kGroupElems;
    wa += s * wq;
    wb += m * w_sum;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 1e-9 * aa * bb) {
    const double scale = (wa * bb - wb * ab) / determinant;
    const double min = (wa * ab - wb * aa) / determinant;
    if (scale > 0 && min > 0) {
      b.scale = factor_bits(scale);
      b.min = factor_bits(min);
    }
  } else if (aa > 0 && bb == 0 && wa > 0) {
    b.scale = factor_bits(wa / aa);
  }
}

RangeBlock fit_range_block(const float* w, const RangeGrid& grid) {
  RangeFit fits[RangeBlock::kGroups];
  float most_scale = 0, most_min = 0;
  for (int g = 0; g < RangeBlock::kGroups; ++g) {
    fits[g] = fit_range(w + g * RangeBlock::kGroupElems, RangeBlock::kGroupElems, grid);
    most_scale = std::max(most_scale, fits[g].scale);
    most_min = std::max(most_min, -fits[g].min);
  }
  RangeBlock b;
  b.scale = factor_bits(most_scale / RangeBlock::kMost);
  b.min = factor_bits(most_min / RangeBlock::kMost);
  choose_groups(w, fits, grid.highest, b);
  for (int round = 0; round < kRounds; ++round) {
    RangeBlock next = b;
    choose_factors(w, next);
    choose_groups(w, fits, grid.highest, next);
    if (!(next.error < b.error)) break;
    b = next;
  }
  return b;
}

// As q4_k_scales.h reads them.
void put_scales(const RangeBlock& b, uint8_t* out) {
  for (int g = 0; g < 4; ++g) {
    out[g] = static_cast<uint8_t>(b.s[g] | b.s[g + 4] >> 4 << 6);
    out[g + 4] = static_cast<uint8_t>(b.m[g] | b.m[g + 4] >> 4 << 6);
    out[g + 8] = static_cast<uint8_t>((b.s[g + 4] & 15) | (b.m[g + 4] & 15) << 4);
  }
}

void put_nibbles(const RangeBlock& b, uint8_t* out) {
  for (int i = 0; i < kElems / 2; ++i) {
    const int low = static_cast<int>(b.q[i / 32 * 64 + i % 32]);
    const int high = static_cast<int>(b.q[i / 32 * 64 + 32 + i % 32]);
    out[i] = static_cast<uint8_t>((low & 15) | (high & 15) << 4);
  }
}

// Q6_K before packing: w = scale * s[g] * q.
struct ScaleBlock {
  static constexpr int kGroups = 16, kGroupElems = 16;
  uint16_t scale = 0;
  int s[kGroups] = {};
  float q[kElems] = {};
  double error = INFINITY;
};

constexpr ScaleGrid kQ6Grid = {-32, 31, 1.2f, 0.2f, 12};

void choose_groups(const float* w, const float* fits, ScaleBlock& b) {
  const float scale = f16_to_f32(b.scale);
  b.error = 0;
  for (int g = 0; g < ScaleBlock::kGroups; ++g) {
    const float* group = w + g * ScaleBlock::kGroupElems;
    const int s = scale != 0 ? to_whole(double{fits[g]} / scale, -128, 127) : 0;
    float best = INFINITY;
    for (int i = std::max(s - 1, -128); i <= std::min(s + 1, 127); ++i) {
      float q[ScaleBlock::kGroupElems];
      const RangeFit fit = {scale * static_cast<float>(i), 0};
      const float error =
          round_to_grid(group, ScaleBlock::kGroupElems, fit, kQ6Grid.lowest, kQ6Grid.highest, q);
      if (!(error < best)) continue;
      best = error;
      b.s[g] = i;
      std::copy_n(q, ScaleBlock::kGroupElems, b.q + g * ScaleBlock::kGroupElems);
    }
    b.error += best;
  }
}

void choose_factor(const float* w, ScaleBlock& b) {
  double aa = 0, wa = 0;
  for (int i = 0; i < kElems; ++i) {
    const double a = double{b.q[i]} * b.s[i / ScaleBlock::kGroupElems];
    aa += a * a;
    wa += a * w[i];
  }
  if (aa > 0 && wa != 0) b.scale = factor_bits(wa / aa);
}

}  // namespace

void encode(const float* w, BlockQ4_K& out) {
  constexpr RangeGrid kGrid = {15, 1.2f, 0.2f, 16, true};
  const RangeBlock b = fit_range_block(w, kGrid);
  out.scale = b.scale;
  out.min = b.min;
  put_scales(b, out.scales);
  put_nibbles(b, out.q);
}

void encode(const float* w, BlockQ5_K& out) {
  constexpr RangeGrid kGrid = {31, 1.2f, 0.2f, 14, true};
  const RangeBlock b = fit_range_block(w, kGrid);
  out.scale = b.scale;
  out.min = b.min;
  put_scales(b, out.scales);
  put_nibbles(b, out.q);
  std::memset(out.high, 0, sizeof out.high);
  for (int i = 0; i < kElems; ++i) {
    out.high[i % 32] |= static_cast<uint8_t>((static_cast<int>(b.q[i]) >> 4 & 1) << (i / 32));
  }
}

void encode(const float* w, BlockQ6_K& out) {
  float fits[ScaleBlock::kGroups];
  float largest = 0;
  for (int g = 0; g < ScaleBlock::kGroups; ++g) {
    fits[g] = fit_scale(w + g * ScaleBlock::kGroupElems, ScaleBlock::kGroupElems, kQ6Grid);
    if (std::fabs(fits[g]) > std::fabs(largest)) largest = fits[g];
  }
  ScaleBlock b;
  b.scale = factor_bits(largest / -128);
  choose_groups(w, fits, b);
  for (int round = 0; round < kRounds; ++round) {
    ScaleBlock next = b;
    choose_factor(w, next);
    choose_groups(w, fits, next);
    if (!(next.error < b.error)) break;
    b = next;
  }
  out.scale = b.scale;
  for (int g = 0; g < ScaleBlock::kGroups; ++g) out.scales[g] = static_cast<int8_t>(b.s[g]);
  std::memset(out.q, 0, sizeof out.q);
  std::memset(out.high, 0, sizeof out.high);
  for (int i = 0; i < kElems; ++i) {
    const int q = static_cast<int>(b.q[i]) + 32;
    out.q[i / 128 * 64 + i % 64] |= static_cast<uint8_t>((q & 15) << (i / 64 % 2 * 4));
    out.high[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(q >> 4 << (i / 32 % 4 * 2));
  }
}

}  // namespace skald
