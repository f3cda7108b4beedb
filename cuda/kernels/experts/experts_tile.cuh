// The expert and the places that a block computes. Only the device knows how many tiles there are.
// So grids have as many blocks as are possible, and blocks without a tile exit at once.
#pragma once

#include <algorithm>

#include "cuda/kernels/device/prefix_sum.cuh"
#include "cuda/kernels/experts/experts_layout.h"
#include "engine/base/check.h"

namespace skald::cuda {

struct ExpertTile {
  int expert, first, rows;  // first: the tile's first place; rows: 0 if there is nothing to do
};

// Finds tile number `tile`. A whole warp calls it, after the wait for the kernel ahead. kRows:
// places of a tile.
template <int kRows>
__device__ ExpertTile find_tile(const Routing& routing, int tile) {
  if (routing.rows == 1) return {__ldcg(routing.chosen + tile), tile, 1};
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kAhead = 4;  // sets of 32 experts whose places are read together
  int firsts[kAhead], ends[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int expert = 32 * i + lane;
    const bool real = expert < routing.count;
    firsts[i] = real ? __ldcg(routing.begins + expert) : 0;
    ends[i] = real ? __ldcg(routing.begins + expert + 1) : 0;
  }
  int before = 0;
  for (int base = 0; base < routing.count; base += 32) {
    const int expert = base + lane;
    int first = 0, end = 0;
    if (base < 32 * kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (base == 32 * i) first = firsts[i], end = ends[i];
      }
    } else if (expert < routing.count) {
      first = __ldcg(routing.begins + expert);
      end = __ldcg(routing.begins + expert + 1);
    }
    const int tiles = (end - first + kRows - 1) / kRows;
    const int sum = warp_prefix_sum(tiles);
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

// A tile, and the block of weight rows that its places are multiplied by. In the grid an expert's
// tiles with the same weights are neighbours; then come the expert's next weights.
struct ExpertBlock {
  ExpertTile tile;
  int rows;  // index of the block of weight rows
};

__host__ __device__ inline int row_blocks(const ExpertsLaunch& a, int rows) {
  return static_cast<int>((a.outs + rows - 1) / rows);
}
inline unsigned expert_blocks(const ExpertsLaunch& a, int places, int rows) {
  const int64_t blocks = int64_t{expert_tiles(a.routing, places)} * row_blocks(a, rows);
  check(blocks <= INT32_MAX, "experts' blocks fit in a grid");
  return static_cast<unsigned>(blocks);
}

// Like find_tile(), for a grid of expert_blocks().
template <int kPlaces>
__device__ ExpertBlock find_block(const Routing& routing, unsigned block, int row_blocks) {
  const ExpertTile tile = find_tile<kPlaces>(routing, static_cast<int>(block) / row_blocks);
  if (tile.rows == 0 || routing.rows == 1) return {tile, static_cast<int>(block) % row_blocks};
  // The block's number within its expert, counted from the expert's first tile.
  const int begin = __ldcg(routing.begins + tile.expert);
  const int end = __ldcg(routing.begins + tile.expert + 1);
  const int tiles = (end - begin + kPlaces - 1) / kPlaces;
  const int own =
      (tile.first - begin) / kPlaces * row_blocks + static_cast<int>(block) % row_blocks;
  const int first = begin + own % tiles * kPlaces;
  return {{tile.expert, first, min(kPlaces, end - first)}, own / tiles};
}

// The row of `in` that a place multiplies.
__device__ inline int64_t input_row(const Routing& routing, bool by_place, int place) {
  if (by_place) return place;
  return routing.rows == 1 ? 0 : __ldcg(routing.row_of + place);
}
__device__ inline int64_t input_row(const ExpertsLaunch& a, int place) {
  return input_row(a.routing, a.by_place, place);
}

}  // namespace skald::cuda
