// Quantizes floats to block formats. A thread holds a group of 32 weights (16 for Q6_K) in
// registers and searches for the group's scale without other threads. A block of 256 weights is
// made by 8 threads (16 for Q6_K), which exchange their groups' sums in shared memory. The search
// takes nearly all of the time: some 700 instructions per weight for Q4_K. On an H200 that is three
// quarters of the time in which the weight arrives over the link.
#include "cuda/kernels/tiles/quantize.h"

#include <type_traits>

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/tiles/formats.h"
#include "cuda/kernels/tiles/quantize.cuh"
#include "engine/base/check.h"
#include "engine/quant/code_bytes.h"
#include "engine/quant/grids.h"
#include "engine/quant/k_search.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 128;

// Fits w = scale * q.
template <class Block>
__device__ __forceinline__ void fit(const DeviceGroup<32>& w, const ScaleGrid& grid, Block& out,
                                    uint8_t* codes) {
  out.scale = f32_to_f16(search::fit_scale(w, grid));
  search::round_to_grid(w, {f16_to_f32(out.scale), 0}, grid.lowest, grid.highest,
                        PutCodes{codes, static_cast<int>(-grid.lowest)});
}

// Fits w = scale * q + min.
template <class Block>
__device__ __forceinline__ void fit(const DeviceGroup<32>& w, const RangeGrid& grid, Block& out,
                                    uint8_t* codes) {
  const RangeFit fit = search::fit_range(w, grid);
  out.scale = f32_to_f16(fit.scale);
  out.min = f32_to_f16(fit.min);
  search::round_to_grid(w, {f16_to_f32(out.scale), f16_to_f32(out.min)}, 0, grid.highest,
                        PutCodes{codes, 0});
}

// One thread makes one block of 32 weights.
template <class Block>
__global__ void __launch_bounds__(kThreads) quantize_32(QuantizeLaunch a, int64_t blocks) {
  __shared__ Block made[kThreads];
  const int64_t first = int64_t{blockIdx.x} * kThreads, index = first + threadIdx.x;
  if (index < blocks) {
    const DeviceGroup<32> w = load_group<32>(a, index * 32);
    uint8_t codes[32];
    Block& out = made[threadIdx.x];
    fit(w, grid_of<Block>(), out, codes);
    const auto code = [&](int i) -> int { return codes[i]; };
    if constexpr (sizeof(out.q) == 32) {
      for (int i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(code(i) - 127);
    } else {
      for (int i = 0; i < 16; ++i) out.q[i] = nibble_byte<16>(code, i);
      if constexpr (requires { out.high; }) {
        for (int i = 0; i < 4; ++i) out.high[i] = fifth_bits<1>(code, 8 * i);
      }
    }
  }
  __syncthreads();
  const int count = static_cast<int>(min(blocks - first, int64_t{kThreads}));
  write_blocks<Block, kThreads>(made, count, static_cast<Block*>(a.blocks) + first);
}

// Data that the threads of a block of 256 weights exchange.
struct RangeTeam {
  static constexpr int kThreads = search::RangeFactors::kGroups;
  RangeFit fits[kThreads];
  search::RangeGroup groups[kThreads];
  search::RangeTerms terms[kThreads];
  uint8_t codes[256];
};

struct ScaleTeam {
  static constexpr int kThreads = search::ScaleFactor::kGroups;
  float fits[kThreads];
  search::ScaleGroup groups[kThreads];
  search::ScaleTerms terms[kThreads];
  uint8_t codes[256];
};

// Fits the factors of the block and the scales of its groups in turns, as fit_block() of
// engine/quant/encode_k.cpp does. choose(factors) fits a group, tell(group, factors) stores the
// group's terms, and next(factors) reads the terms of all groups. All teams of a warp go through
// the same rounds, since __syncwarp() waits for the whole warp.
template <class Team, class Factors, class Group, class Choose, class Tell, class Next>
__device__ __forceinline__ void in_turns(Team& team, int g, Factors& factors, Group& group,
                                         const Choose& choose, const Tell& tell, const Next& next) {
  Factors tried = factors;
  double error = 0;
  bool done = false;
  for (int round = 0; round <= search::kRounds; ++round) {
    Group found = group;
    if (!done) found = choose(tried);
    team.groups[g] = found;
    __syncwarp();
    const double now = search::block_error(team.groups, Team::kThreads);
    done = done || (round > 0 && !(now < error));
    if (!done) {
      error = now;
      factors = tried;
      group = found;
    }
    if (round == search::kRounds || __all_sync(~0u, done)) break;
    if (!done) tell(group, factors);
    __syncwarp();
    if (!done) tried = next(factors);
  }
  __syncwarp();
}

// Q4_K and Q5_K: eight threads make one block of 256 weights.
template <class Block>
__global__ void __launch_bounds__(kThreads) quantize_ranges(QuantizeLaunch a, int64_t blocks) {
  using Team = RangeTeam;
  constexpr int kTeam = Team::kThreads, kTeams = kThreads / kTeam;
  constexpr RangeGrid kGrid = grid_of<Block>();
  __shared__ Team teams[kTeams];
  __shared__ Block made[kTeams];
  Team& team = teams[threadIdx.x / kTeam];
  Block& out = made[threadIdx.x / kTeam];
  const int g = threadIdx.x % kTeam;
  const int64_t first = int64_t{blockIdx.x} * kTeams;
  // Threads beyond the last block repeat the last block.
  const int64_t index = min(first + threadIdx.x / kTeam, blocks - 1);
  const DeviceGroup<32> w = load_group<32>(a, index * 256 + g * 32);
  const RangeFit fit = search::fit_range(w, kGrid);
  team.fits[g] = fit;
  __syncwarp();
  search::RangeFactors factors = search::first_factors(team.fits);
  search::RangeGroup group = {};
  in_turns(
      team, g, factors, group,
      [&](search::RangeFactors tried) {
        return search::choose_group(w, fit, tried, kGrid.highest);
      },
      [&](search::RangeGroup last, search::RangeFactors now) {
        team.terms[g] = search::terms(w, last, now, kGrid.highest);
      },
      [&](search::RangeFactors now) { return search::next_factors(now, team.terms); });
  search::round_to_grid(w, group.fit(factors), 0, kGrid.highest, PutCodes{team.codes + g * 32, 0});
  team.groups[g] = group;
  __syncwarp();
  const auto code = [&](int i) -> int { return team.codes[i]; };
  const auto s = [&](int i) { return team.groups[i].s; };
  const auto m = [&](int i) { return team.groups[i].m; };
  out.scale = factors.scale;
  out.min = factors.min;
  for (int i = g; i < 12; i += kTeam) out.scales[i] = q4_k_scale_byte(s, m, i);
  for (int i = g; i < 128; i += kTeam) out.q[i] = nibble_byte<32>(code, i);
  if constexpr (requires { out.high; }) {
    for (int i = g; i < 32; i += kTeam) out.high[i] = fifth_bits<32>(code, i);
  }
  __syncthreads();
  const int count = static_cast<int>(min(blocks - first, int64_t{kTeams}));
  write_blocks<Block, kThreads>(made, count, static_cast<Block*>(a.blocks) + first);
}

// Q6_K: sixteen threads make one block of 256 weights.
__global__ void __launch_bounds__(kThreads) quantize_q6_k(QuantizeLaunch a, int64_t blocks) {
  constexpr int kTeam = ScaleTeam::kThreads, kTeams = kThreads / kTeam;
  constexpr ScaleGrid kGrid = grid_of<BlockQ6_K>();
  __shared__ ScaleTeam teams[kTeams];
  __shared__ BlockQ6_K made[kTeams];
  ScaleTeam& team = teams[threadIdx.x / kTeam];
  BlockQ6_K& out = made[threadIdx.x / kTeam];
  const int g = threadIdx.x % kTeam;
  const int64_t first = int64_t{blockIdx.x} * kTeams;
  const int64_t index = min(first + threadIdx.x / kTeam, blocks - 1);
  const DeviceGroup<16> w = load_group<16>(a, index * 256 + g * 16);
  const float fit = search::fit_scale(w, kGrid);
  team.fits[g] = fit;
  __syncwarp();
  search::ScaleFactor factor = search::first_factor(team.fits);
  search::ScaleGroup group = {};
  in_turns(
      team, g, factor, group,
      [&](search::ScaleFactor tried) { return search::choose_group(w, fit, tried, kGrid); },
      [&](search::ScaleGroup last, search::ScaleFactor now) {
        team.terms[g] = search::terms(w, last, now, kGrid);
      },
      [&](search::ScaleFactor now) { return search::next_factor(now, team.terms); });
  search::round_to_grid(w, group.fit(factor), kGrid.lowest, kGrid.highest,
                        PutCodes{team.codes + g * 16, static_cast<int>(-kGrid.lowest)});
  __syncwarp();
  const auto code = [&](int i) -> int { return team.codes[i]; };
  out.scale = factor.scale;
  out.scales[g] = static_cast<int8_t>(group.s);
  for (int i = g; i < 128; i += kTeam) out.q[i] = nibble_byte<64>(code, i);
  for (int i = g; i < 64; i += kTeam) out.high[i] = high_pairs(code, i);
  __syncthreads();
  const int count = static_cast<int>(min(blocks - first, int64_t{kTeams}));
  write_blocks<BlockQ6_K, kThreads>(made, count, static_cast<BlockQ6_K*>(a.blocks) + first);
}

// A format's kernel (nullptr: the format has none), and the number of weight blocks that a thread
// block makes.
struct Quantizer {
  void (*kernel)(QuantizeLaunch, int64_t) = nullptr;
  int blocks = 0;
};

// Derived from the format's grid.
template <class Block>
Quantizer quantizer_of() {
  if constexpr (requires(const Block* block) { grid_of(block); }) {
    constexpr bool kRange = std::is_same_v<decltype(grid_of<Block>()), RangeGrid>;
    if constexpr (Block::kElems == 32) return {quantize_32<Block>, kThreads};
    if constexpr (Block::kElems == 256 && kRange) {
      return {quantize_ranges<Block>, kThreads / search::RangeFactors::kGroups};
    }
    if constexpr (std::is_same_v<Block, BlockQ6_K>) {
      return {quantize_q6_k, kThreads / search::ScaleFactor::kGroups};
    }
  }
  return {};
}

Quantizer quantizer(DType to) {
  Quantizer found;
  tiles::dispatch_blocks(
      to, [&]<class F, class Block>(tiles::Packed<F, Block>) { found = quantizer_of<Block>(); });
  return found;
}

}  // namespace

bool can_quantize(DType to) { return quantizer(to).kernel != nullptr; }

void launch_quantize(const QuantizeLaunch& a, Stream stream) {
  const Quantizer found = quantizer(a.to);
  check(found.kernel && block_elems(a.from) == 1, "floats are quantized to a block format");
  const int64_t blocks = a.rows * (a.cols / block_elems(a.to));
  const auto grid = static_cast<unsigned>((blocks + found.blocks - 1) / found.blocks);
  launch_kernel(found.kernel, {dim3(grid), kThreads}, stream, a, blocks);
}

}  // namespace skald::cuda
