// Encoders of formats whose weights are a scale times one of a few numbers: IQ4_NL, IQ4_XS, MXFP4
// and Q3_K. The searches are those of fit_search.h and k_search.h, with numbers that need not lie
// at equal distances.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "engine/quant/code_bytes.h"
#include "engine/quant/encode.h"
#include "engine/quant/formats/iq4_values.h"
#include "engine/quant/host_group.h"

namespace skald {
namespace {

constexpr int kMostNumbers = 16;

// A format's numbers in ascending order, and the code of each.
struct Numbers {
  int count = 0;
  float number[kMostNumbers] = {};
  uint8_t code[kMostNumbers] = {};
  float middle[kMostNumbers] = {};  // between a number and the next

  constexpr void finish() {
    for (int i = 0; i + 1 < count; ++i) middle[i] = (number[i] + number[i + 1]) / 2;
  }
  constexpr float lowest() const { return number[0]; }
  constexpr float highest() const { return number[count - 1]; }
};

constexpr Numbers iq4_numbers() {
  Numbers n;
  n.count = 16;
  for (int i = 0; i < 16; ++i) {
    n.number[i] = static_cast<float>(iq4_value(i));
    n.code[i] = static_cast<uint8_t>(i);
  }
  n.finish();
  return n;
}
constexpr Numbers mxfp4_numbers() {
  constexpr int kMagnitudes[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  Numbers n;
  n.count = 15;
  for (int i = 0; i < 15; ++i) {
    const int code = i < 7 ? 15 - i : i - 7;
    const int magnitude = kMagnitudes[code % 8];
    n.number[i] = static_cast<float>(code < 8 ? magnitude : -magnitude);
    n.code[i] = static_cast<uint8_t>(code);
  }
  n.finish();
  return n;
}
constexpr Numbers q3_k_numbers() {
  Numbers n;
  n.count = 8;
  for (int i = 0; i < 8; ++i) {
    n.number[i] = static_cast<float>(i - 4);
    n.code[i] = static_cast<uint8_t>(i);
  }
  n.finish();
  return n;
}
constexpr Numbers kIq4Numbers = iq4_numbers(), kMxfp4Numbers = mxfp4_numbers(),
                  kQ3KNumbers = q3_k_numbers();

// A group whose "whole numbers" are those of kNumbers. NaN gets the lowest.
// Base: search::HostGroup or search::WeightedHostGroup.
template <class Base, const Numbers& kNumbers>
struct ValueGroup : Base {
  using Base::Base;
  using Vec = search::Lanes;
  SKALD_HD_INLINE static void to_grid(Vec& x, float, float) {
    Vec value = Vec{} + kNumbers.number[0];
    for (int j = 0; j + 1 < kNumbers.count; ++j) {
      value = x > Vec{} + kNumbers.middle[j] ? Vec{} + kNumbers.number[j + 1] : value;
    }
    x = value;
  }
  // The search maps the largest weight to points near the ends, in steps of 2.5 %.
  static constexpr ScaleGrid kGrid = {kNumbers.lowest(), kNumbers.highest(),
                                      0.15f * kNumbers.highest(), 0.025f * kNumbers.highest(), 16};
};

template <class Group>
SKALD_HD_INLINE float error_of(const Group& w, float scale) {
  return search::round_to_grid(w, {scale, 0}, 0, 0, search::NotPut());
}

// Stores the codes of the numbers nearest to w / scale.
template <class Group>
SKALD_HD_INLINE void put_codes(const Group& w, const Numbers& numbers, float scale,
                               uint8_t* codes) {
  search::round_to_grid(w, {scale, 0}, 0, 0, [&](int i, const search::Lanes& values) {
    for (int lane = 0; lane < search::kLanes; ++lane) {
      const float* found = std::find(numbers.number, numbers.number + numbers.count, values[lane]);
      codes[i * search::kLanes + lane] = numbers.code[found - numbers.number];
    }
  });
}

// Calls run() with a group of kCount weights.
template <int kCount, const Numbers& kNumbers, class Run>
SKALD_HD_INLINE auto with_values(HostWeights w, const Run& run) {
  return search::with_group<kCount>(w, [&]<class Base>(const Base&) SKALD_INLINE_LAMBDA {
    return run(ValueGroup<Base, kNumbers>(w));
  });
}

// A block of 256 weights: w = scale * s[g] * number, s from -32 to 31.
template <int kElems>
struct ValueBlock {
  static constexpr int kGroups = 256 / kElems, kLeast = -32, kMost = 31;
  uint16_t scale = 0;  // f16 bits
  int s[kGroups] = {};
  double error = 0;

  // The best s for the scale: the rounded ratio, or a neighbour.
  template <class Group>
  SKALD_HD_INLINE void choose(HostWeights w, const float* fits, uint16_t bits) {
    scale = bits;
    error = 0;
    const float factor = f16_to_f32(bits);
    for (int g = 0; g < kGroups; ++g) {
      const int middle =
          factor == 0 ? 0 : search::to_whole(double{fits[g]} / factor, kLeast, kMost);
      float best = std::numeric_limits<float>::infinity();
      for (int i = std::max(middle - 1, kLeast); i <= std::min(middle + 1, kMost); ++i) {
        const float found = error_of(Group(w.from(g * kElems)), factor * static_cast<float>(i));
        if (!(found < best)) continue;
        best = found;
        s[g] = i;
      }
      error += best;
    }
  }
  // The scale with the least error for these s.
  template <class Group>
  SKALD_HD_INLINE uint16_t next_scale(HostWeights w) const {
    double aa = 0, wa = 0;
    const float factor = f16_to_f32(scale);
    for (int g = 0; g < kGroups; ++g) {
      const float inverse = search::inverse_of(factor * static_cast<float>(s[g]));
      const search::GridSums sums = search::scale_sums(Group(w.from(g * kElems)), inverse, 0, 0);
      aa += double{sums.qq} * s[g] * s[g];
      wa += double{sums.wq} * s[g];
    }
    return aa > 0 && wa != 0 ? search::factor_bits(wa / aa) : scale;
  }
};

template <class Group>
SKALD_HD_INLINE ValueBlock<Group::kElems> fit_block(HostWeights w, const Numbers& numbers,
                                                    uint8_t (&codes)[256]) {
  constexpr int kRounds = 3, kElems = Group::kElems;
  using Fit = ValueBlock<kElems>;
  float fits[Fit::kGroups], largest = 0;
  for (int g = 0; g < Fit::kGroups; ++g) {
    fits[g] = search::fit_scale(Group(w.from(g * kElems)), Group::kGrid);
    if (search::magnitude(fits[g]) > search::magnitude(largest)) largest = fits[g];
  }
  // The largest group's s is the least one or a neighbour: f16 has few digits for small scales.
  Fit best;
  best.template choose<Group>(w, fits, search::factor_bits(double{largest} / Fit::kLeast));
  for (int less = 1; less < 3; ++less) {
    Fit next;
    next.template choose<Group>(w, fits,
                                search::factor_bits(double{largest} / (Fit::kLeast + less)));
    if (next.error < best.error) best = next;
  }
  for (int round = 0; round < kRounds; ++round) {
    Fit next;
    next.template choose<Group>(w, fits, best.template next_scale<Group>(w));
    if (!(next.error < best.error)) break;
    best = next;
  }
  for (int g = 0; g < Fit::kGroups; ++g) {
    const float scale = f16_to_f32(best.scale) * static_cast<float>(best.s[g]);
    put_codes(Group(w.from(g * kElems)), numbers, scale, codes + g * kElems);
  }
  return best;
}

template <int kCount, const Numbers& kNumbers>
SKALD_HD_INLINE ValueBlock<kCount> fit_values(HostWeights w, uint8_t (&codes)[256]) {
  return with_values<kCount, kNumbers>(w, [&]<class Group>(const Group&) SKALD_INLINE_LAMBDA {
    return fit_block<Group>(w, kNumbers, codes);
  });
}

}  // namespace

SKALD_CLONES void encode(HostWeights w, BlockIQ4_NL& out) {
  uint8_t codes[32];
  with_values<32, kIq4Numbers>(w, [&](const auto& group) SKALD_INLINE_LAMBDA {
    out.scale = search::factor_bits(search::fit_scale(group, group.kGrid));
    put_codes(group, kIq4Numbers, f16_to_f32(out.scale), codes);
  });
  const auto code = [&](int i) { return static_cast<int>(codes[i]); };
  for (int i = 0; i < 16; ++i) out.q[i] = nibble_byte<16>(code, i);
}

SKALD_CLONES void encode(HostWeights w, BlockIQ4_XS& out) {
  uint8_t codes[256];
  const ValueBlock<32> fit = fit_values<32, kIq4Numbers>(w, codes);
  out.scale = fit.scale;
  out.scales_high = 0;
  for (int g = 0; g < 8; ++g) {
    const int s = fit.s[g] + 32;
    uint8_t& low = out.scales_low[g / 2];
    low = static_cast<uint8_t>(g % 2 ? low | (s & 15) << 4 : s & 15);
    out.scales_high = static_cast<uint16_t>(out.scales_high | (s >> 4) << (2 * g));
  }
  const auto code = [&](int i) { return static_cast<int>(codes[i]); };
  for (int i = 0; i < 128; ++i) out.q[i] = nibble_byte<16>(code, i);
}

SKALD_CLONES void encode(HostWeights w, BlockQ3_K& out) {
  uint8_t codes[256];
  const ValueBlock<16> fit = fit_values<16, kQ3KNumbers>(w, codes);
  out.scale = fit.scale;
  std::fill(std::begin(out.scales), std::end(out.scales), uint8_t{0});
  for (int g = 0; g < 16; ++g) {
    const int s = fit.s[g] + 32;
    out.scales[g % 8] = static_cast<uint8_t>(out.scales[g % 8] | (s & 15) << (g / 8 * 4));
    uint8_t& high = out.scales[8 + g % 4];
    high = static_cast<uint8_t>(high | (s >> 4) << (g / 4 * 2));
  }
  std::fill(std::begin(out.q), std::end(out.q), uint8_t{0});
  std::fill(std::begin(out.high), std::end(out.high), uint8_t{0});
  for (int i = 0; i < 256; ++i) {
    uint8_t &low = out.q[i / 128 * 32 + i % 32], &high = out.high[i % 32];
    low = static_cast<uint8_t>(low | (codes[i] & 3) << (i / 32 % 4 * 2));
    high = static_cast<uint8_t>(high | codes[i] >> 2 << (i / 32));
  }
}

SKALD_CLONES void encode(HostWeights w, BlockMXFP4& out) {
  // The exponents near the one that maps the largest weight to 12. The inverse of exponent 0's
  // scale is no float.
  constexpr int kBias = 128, kFewest = 1, kMost = 254;
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(w.w[i]));
  int first = 0;
  if (largest > 0 && std::isfinite(largest)) first = std::ilogb(largest) - 3 + kBias - 1;
  uint8_t codes[32];
  with_values<32, kMxfp4Numbers>(w, [&](const auto& group) SKALD_INLINE_LAMBDA {
    float best = std::numeric_limits<float>::infinity();
    out.exponent = kFewest;
    const int last = std::clamp(first + 2, kFewest, kMost);
    for (int e = std::clamp(first, kFewest, kMost); e <= last; ++e) {
      const float error = error_of(group, mxfp4_scale(static_cast<uint32_t>(e)));
      if (!(error < best)) continue;
      best = error;
      out.exponent = static_cast<uint8_t>(e);
    }
    put_codes(group, kMxfp4Numbers, mxfp4_scale(out.exponent), codes);
  });
  const auto code = [&](int i) { return static_cast<int>(codes[i]); };
  for (int i = 0; i < 16; ++i) out.q[i] = nibble_byte<16>(code, i);
}

}  // namespace skald
