// Encoders of the formats with blocks of 256 weights. k_search.h has the search.
#include <algorithm>

#include "engine/quant/code_bytes.h"
#include "engine/quant/encode.h"
#include "engine/quant/grids.h"
#include "engine/quant/host_fit.h"

namespace skald {
namespace {

using search::kRounds;
using search::RangeFactors;
using search::RangeGroup;
using search::ScaleFactor;
using search::ScaleGroup;
using search::SmallRangeFactors;

constexpr int kElems = 256;

// Not in grids.h: a GPU's quantizer has no team for groups of 16 with minimums.
constexpr RangeGrid kQ2KGrid = {3, 1.1f, 0.1f, 28, true};

// A block of Q4_K or Q5_K before packing, or one of Q2_K.
template <class Factors>
struct RangeBlock {
  Factors factors;
  RangeGroup groups[Factors::kGroups];
  double error = 0;
  float q[kElems];
};

template <class Factors>
void fit_block(HostWeights w, const RangeGrid& grid, RangeBlock<Factors>& b) {
  constexpr int kGroups = Factors::kGroups, kGroupElems = Factors::kGroupElems;
  RangeFit fits[kGroups];
  for (int g = 0; g < kGroups; ++g) fits[g] = fit_range(w.from(g * kGroupElems), kGroupElems, grid);
  b.factors = search::first_factors<Factors>(fits);
  b.error = choose_groups(w, fits, b.factors, grid.highest, b.groups);
  for (int round = 0; round < kRounds; ++round) {
    RangeGroup groups[kGroups];
    const Factors next = next_factors(w, b.groups, b.factors, grid.highest);
    const double error = choose_groups(w, fits, next, grid.highest, groups);
    if (!(error < b.error)) break;
    b.factors = next;
    b.error = error;
    std::copy_n(groups, kGroups, b.groups);
  }
  for (int g = 0; g < kGroups; ++g) {
    const int first = g * kGroupElems;
    round_to_grid(w.w + first, kGroupElems, b.groups[g].fit(b.factors), 0, grid.highest,
                  b.q + first);
  }
}

template <class Block>
void put(const RangeBlock<RangeFactors>& b, Block& out) {
  out.scale = b.factors.scale;
  out.min = b.factors.min;
  const auto s = [&](int g) { return b.groups[g].s; };
  const auto m = [&](int g) { return b.groups[g].m; };
  const auto code = [&](int i) { return static_cast<int>(b.q[i]); };
  for (int i = 0; i < 12; ++i) out.scales[i] = q4_k_scale_byte(s, m, i);
  for (int i = 0; i < kElems / 2; ++i) out.q[i] = nibble_byte<32>(code, i);
}

// A block of Q6_K before packing.
struct ScaleBlock {
  ScaleFactor factor;
  ScaleGroup groups[ScaleFactor::kGroups];
  double error = 0;
  float q[kElems];
};

void fit_block(HostWeights w, const ScaleGrid& grid, ScaleBlock& b) {
  constexpr int kGroups = ScaleFactor::kGroups, kGroupElems = ScaleFactor::kGroupElems;
  float fits[kGroups];
  for (int g = 0; g < kGroups; ++g) fits[g] = fit_scale(w.from(g * kGroupElems), kGroupElems, grid);
  b.factor = search::first_factor(fits);
  b.error = choose_groups(w, fits, b.factor, grid, b.groups);
  for (int round = 0; round < kRounds; ++round) {
    ScaleGroup groups[kGroups];
    const ScaleFactor next = next_factor(w, b.groups, b.factor, grid);
    const double error = choose_groups(w, fits, next, grid, groups);
    if (!(error < b.error)) break;
    b.factor = next;
    b.error = error;
    std::copy_n(groups, kGroups, b.groups);
  }
  for (int g = 0; g < kGroups; ++g) {
    const int first = g * kGroupElems;
    round_to_grid(w.w + first, kGroupElems, b.groups[g].fit(b.factor), grid.lowest, grid.highest,
                  b.q + first);
  }
}

}  // namespace

void encode(HostWeights w, BlockQ4_K& out) {
  RangeBlock<RangeFactors> b;
  fit_block(w, grid_of<BlockQ4_K>(), b);
  put(b, out);
}

void encode(HostWeights w, BlockQ5_K& out) {
  RangeBlock<RangeFactors> b;
  fit_block(w, grid_of<BlockQ5_K>(), b);
  put(b, out);
  const auto code = [&](int i) { return static_cast<int>(b.q[i]); };
  for (int i = 0; i < 32; ++i) out.high[i] = fifth_bits<32>(code, i);
}

void encode(HostWeights w, BlockQ2_K& out) {
  RangeBlock<SmallRangeFactors> b;
  fit_block(w, kQ2KGrid, b);
  out.scale = b.factors.scale;
  out.min = b.factors.min;
  for (int g = 0; g < SmallRangeFactors::kGroups; ++g) {
    out.scales[g] = static_cast<uint8_t>(b.groups[g].s | b.groups[g].m << 4);
  }
  const auto code = [&](int i) { return static_cast<int>(b.q[i]); };
  for (int i = 0; i < kElems / 4; ++i) out.q[i] = two_bits(code, i);
}

void encode(HostWeights w, BlockQ6_K& out) {
  constexpr ScaleGrid kGrid = grid_of<BlockQ6_K>();
  ScaleBlock b;
  fit_block(w, kGrid, b);
  out.scale = b.factor.scale;
  for (int g = 0; g < ScaleFactor::kGroups; ++g) {
    out.scales[g] = static_cast<int8_t>(b.groups[g].s);
  }
  const auto code = [&](int i) {
    return static_cast<int>(b.q[i]) - static_cast<int>(kGrid.lowest);
  };
  for (int i = 0; i < kElems / 2; ++i) out.q[i] = nibble_byte<64>(code, i);
  for (int i = 0; i < kElems / 4; ++i) out.high[i] = high_pairs(code, i);
}

}  // namespace skald
