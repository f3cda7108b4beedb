// How gemv_q_sm90 divides a row among the warps of a block, and the row in shared memory.
#pragma once

#include "cuda/kernels/device/digits.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

// Warps that multiply, a team: one for each scheduler, since what is to be done for a tile besides
// is done by each. Two teams take turns at tiles: where one waits for an answer or a product, the
// other has something to do. But two blocks of two teams leave attention no registers, and codes of
// 4 bits are 1 % slower with two.
inline constexpr int kWarps = 4, kMostTeams = 2;
template <class F>
inline constexpr bool kFewInstructions =
    F::kTable == tiles::Table::None&& F::Scales::kCols == 32 && LaneBytesOf<F>::kPlanes == 1;
template <class F>
inline constexpr int kUsualTeams = kFewInstructions<F> ? 1 : 2;
// Of small models: codes of 4 bits, of which a tile is a whole row of most matrices there, are 5 %
// faster with one, Q8_0 is 5 % slower.
template <class F>
inline constexpr int kSmallTeams = kFewInstructions<F>&& LaneBytesOf<F>::kRatio > 1 ? 1 : 2;
inline constexpr int kPartials = tiles::kRows * 4;  // sums that a warp leaves

// What a tile has: so many parts that what is to be done for it besides is done for twice as much,
// fewer where a ring would have few tiles. A warp has adjacent ones.
template <class F>
inline constexpr int kTileParts = F::kRecordBytes / F::kParts > 1500 ? 8 : 16;
template <class F>
inline constexpr int kWarpParts = kTileParts<F> / kWarps;
// Parts that the warps bring at a time, of a tile or of two.
inline constexpr int kStageParts = 16;

// The row in shared memory.
struct Activations {
  int parts;
  char* digits;    // DigitPart of each part
  float* squares;  // [team, warp], of what comes to be normalized
};

}  // namespace skald::cuda
