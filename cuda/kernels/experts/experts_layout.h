// How experts' places are cut into tiles, and the bounds of the kernels for 16-bit products. Calls
// no CUDA: plans and launches use it.
#pragma once

#include <algorithm>

#include "cuda/kernels/experts/experts.h"
#include "cuda/kernels/tiles/layout.h"

namespace skald::cuda {

inline constexpr int kUnitCols = 32;  // columns that the kernels of 16-bit products take at a time

// The most tiles that a step can have, with up to `rows` places of one expert in a tile.
inline int expert_tiles(const RoutingShape& routing, int rows) {
  const int choices = routing.choices();
  if (routing.rows == 1) return choices;
  return choices / rows + std::min(routing.count, choices);
}

// experts_few: a block keeps all choices and tiles in lists of its own.
inline constexpr int kFewPlaces = 8;  // places of a tile
inline constexpr int kMostFewChoices = 1024;
inline constexpr int kMostFewTiles = kMostFewChoices / kFewPlaces + kMostFewChoices;
inline constexpr int64_t kMostFewCols = 16384;  // a place's activations lie in shared memory

// experts_row: a lane for each expert of the row. The columns of a matrix are divided into slices:
// slice i has part i and every slices-th part after it; a warp is worth at least two parts.
inline constexpr int kMostRowUsed = 32;
inline constexpr int kRowThreads = 512;
static_assert(kMostRowUsed * tiles::kRows <= kRowThreads);
inline constexpr int kMostRowBytes = 98 * 1024;  // of the 99 KB that a block has on sm_86
SKALD_HD constexpr int row_slices_of(int parts) {
  return parts >= 16 ? 8 : parts >= 8 ? 4 : parts >= 4 ? 2 : 1;
}
// A block of `own` units has in shared memory: activations, padded to whole parts, with at most two
// sums for each unit of columns; and a sum for each slice of each of its weight rows.
struct RowShared {
  int64_t activations, unit;  // bytes

  RowShared(const ExpertsShape& a, const RoutingShape& routing) {
    const int64_t parts = (a.ins + tiles::kPartCols - 1) / tiles::kPartCols;
    const int64_t cols = (a.by_place ? routing.used : 1) * parts * tiles::kPartCols;
    activations = cols * 2 + cols / kUnitCols * 2 * 4;
    unit = row_slices_of(static_cast<int>(parts)) * tiles::kRows * 4;
  }
  int64_t bytes(int64_t own) const { return activations + own * unit; }
  int64_t most_own() const { return (kMostRowBytes - activations) / unit; }
};

}  // namespace skald::cuda
