// How gemv_q_sm90 divides a row among the warps of a block, and the row's layout in shared memory.
#pragma once

#include "cuda/kernels/linear.h"
#include "cuda/kernels/tiles/formats.h"

namespace skald::cuda {

// Warps that multiply: one per scheduler, since each warp repeats a tile's fixed work. As many more
// warps stage the activations (stage_one.cuh).
inline constexpr int kWarps = 4;
inline constexpr int kPartials = tiles::kRows * 4;  // partial sums that a warp stores

// Parts of a tile. Each tile costs some fixed work, so a tile has 16 parts where it can; formats
// with large parts have 8, so that the ring holds enough tiles. A warp has adjacent parts.
template <class F>
inline constexpr int kTileParts = F::kRecordBytes / F::kParts > 1500 ? 8 : 16;
template <class F>
inline constexpr int kWarpParts = kTileParts<F> / kWarps;
// Parts that become digits together, in one turn: the parts of one tile or of two. The digits of
// kMostTurns turns exceed shared memory.
inline constexpr int kStageParts = 16, kMostTurns = 32;

// Bytes of a part's digits: the bytes of 128 floats, since the activations lie in the same place
// before they become digits.
inline constexpr int kDigitPartBytes = 512;

// The same for formats whose codes are floats (float_digits.cuh).
inline constexpr int kFloatPartBytes = kDigitPartBytes + 16;
template <class F>
inline constexpr int kStagedBytes = F::kFloats ? kFloatPartBytes : kDigitPartBytes;

// The row in shared memory.
struct Activations {
  int turns;
  char* digits;    // kStagedBytes for each part
  float* squares;  // each warp's share of the sum of squares, for the norm
};

}  // namespace skald::cuda
