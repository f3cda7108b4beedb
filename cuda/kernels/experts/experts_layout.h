// How experts' places are cut into tiles, and the bounds of the kernels for 16-bit products. Calls
// no CUDA: plans and launches use it.
#pragma once

#include <algorithm>

#include "cuda/kernels/experts/experts.h"

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

inline constexpr int kMostOneUsed = 32;  // experts_one: a lane for each expert of the row

}  // namespace skald::cuda
