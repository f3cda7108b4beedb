// Activations in the order of places, as experts_many_sm90 multiplies them: memory looks like its
// ring in shared memory, so that one bulk copy brings 64 columns of all places of a tile. Calls no
// CUDA: plans size the memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/kernels/experts/experts.h"

namespace skald::cuda {

inline constexpr int kPlacedCols = 64, kPlacedRowBytes = kPlacedCols * 2;
inline constexpr int kPlacedGroup = 8;  // places; copies begin at a multiple of it
// The most places of a tile's window, which begins at the multiple of kPlacedGroup at or before the
// tile's first place and ends with the tile's last place.
inline constexpr int kMostTilePlaces = 160;
inline constexpr int kPlacedSumCols = 256, kPlacedSumBytes = 32;  // of a place

// Offsets in bytes from the memory's beginning. Halves have all three parts, 16-bit rows the first.
// 0       [blocks of 64 columns, places, 64], columns beyond the row are zeros. The 16-byte unit u
//         of place p lies at u ^ p % 8. Halves: f16, in the order of PreparedLayout's columns.
// sums    [blocks of 256 columns, places, 16]: PreparedLayout's sums of 32 columns, each as the
//         nearest f16 and the difference
// scales  a float per place: results are multiplied by it
struct PlacedLayout {
  int64_t places, blocks, sum_blocks, sums, scales;

  SKALD_HD PlacedLayout(int64_t choices, int64_t cols)
      : places((choices + kPlacedGroup - 1) / kPlacedGroup * kPlacedGroup),
        blocks((cols + kPlacedCols - 1) / kPlacedCols),
        sum_blocks((cols + kPlacedSumCols - 1) / kPlacedSumCols),
        sums(places * blocks * kPlacedRowBytes),
        scales(sums + places * sum_blocks * kPlacedSumBytes) {}
  int64_t bytes(RowOrder order) const {
    return order == RowOrder::PlacedHalves ? scales + places * 4 : sums;
  }
  SKALD_HD int64_t offset(int64_t place, int64_t unit) const {
    return (unit / 8 * places + place) * kPlacedRowBytes + ((unit ^ place) % 8) * 16;
  }
  SKALD_HD int64_t sums_of(int64_t place, int64_t block) const {
    return sums + (block * places + place) * kPlacedSumBytes;
  }
};

// The most tiles that a step can have: an expert's places may begin up to 7 behind a multiple of 8.
inline int64_t placed_tiles(const RoutingShape& routing) {
  return routing.choices() / kMostTilePlaces + 2 * std::min(routing.count, routing.choices());
}

}  // namespace skald::cuda
