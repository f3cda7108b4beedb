// Which expert and which of its places a block computes. Grids are made for the most tiles that
// there can be, since only the device knows how many there are; the others leave at once.
#pragma once

#include <algorithm>

#include "cuda/kernels/experts.h"

namespace skald::cuda {

struct ExpertTile {
  int expert, first, rows;  // the first place; no rows: nothing to do
};

// Most tiles of up to `rows` places of one expert.
inline int expert_tiles(const Routing& routing, int rows) {
  const int choices = routing.choices();
  if (routing.rows == 1) return choices;
  return choices / rows + std::min(routing.count, choices);
}

// For a whole warp, after the wait for the kernel ahead. kRows: places of a tile.
template <int kRows>
__device__ ExpertTile find_tile(const Routing& routing, int tile) {
  if (routing.rows == 1) return {__ldcg(routing.chosen + tile), tile, 1};
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int before = 0;
  for (int base = 0; base < routing.count; base += 32) {
    const int expert = base + lane;
    int first = 0, end = 0;
    if (expert < routing.count) {
      first = __ldcg(routing.begins + expert);
      end = __ldcg(routing.begins + expert + 1);
    }
    const int tiles = (end - first + kRows - 1) / kRows;
    int sum = tiles;
    for (int offset = 1; offset < 32; offset *= 2) {
      const int other = __shfl_up_sync(~0u, sum, offset);
      if (lane >= offset) sum += other;
    }
    const int own = tile - before - (sum - tiles);
    const unsigned found = __ballot_sync(~0u, own >= 0 && own < tiles);
    if (found) {
      const int source = __ffs(static_cast<int>(found)) - 1;
      const int at = __shfl_sync(~0u, first + own * kRows, source);
      return {base + source, at, min(kRows, __shfl_sync(~0u, end, source) - at)};
    }
    before += __shfl_sync(~0u, sum, 31);
  }
  return {0, 0, 0};
}

// Where the numbers lie that a place multiplies.
__device__ inline int64_t input_row(const ExpertsLaunch& a, int place) {
  if (a.by_place) return place;
  return a.routing.rows == 1 ? 0 : __ldcg(a.routing.row_of + place);
}

}  // namespace skald::cuda
