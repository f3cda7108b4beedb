// How gemv_q_sm90 divides a row among the warps of a block, and the row in shared memory.
#pragma once

#include "cuda/kernels/linear.h"
#include "cuda/kernels/tiles/formats.h"

namespace skald::cuda {

// Warps that multiply: one for each scheduler, since what is to be done for a tile besides is done
// by each. As many beside them bring the activations (stage_one.cuh).
inline constexpr int kWarps = 4;
inline constexpr int kPartials = tiles::kRows * 4;  // sums that a warp leaves

// What a tile has: so many parts that what is to be done for it besides is done for twice as much,
// fewer where a ring would have few tiles. A warp has adjacent ones.
template <class F>
inline constexpr int kTileParts = F::kRecordBytes / F::kParts > 1500 ? 8 : 16;
template <class F>
inline constexpr int kWarpParts = kTileParts<F> / kWarps;
// Parts that become digits at a time, a turn: those of a tile or of two. Digits of so many turns
// are more than shared memory has.
inline constexpr int kStageParts = 16, kMostTurns = 32;

// A part of the row there: as many bytes as 128 floats have, which lie in them before they become
// digits.
inline constexpr int kDigitPartBytes = 512;

// The row in shared memory.
struct Activations {
  int turns;
  char* digits;    // [part] kDigitPartBytes
  float* squares;  // [warp], of what comes to be normalized
};

}  // namespace skald::cuda
