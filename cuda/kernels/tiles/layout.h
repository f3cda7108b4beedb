// The layout of a quantized matrix in GPU memory. A matrix is a list of groups of 16 rows. A group
// is a list of records of 128 or 256 columns; the last record and the last group are padded with
// zeros. A record is one or two parts of 128 columns: what one warp multiplies at a time. A part is
// four units of 32 columns.
//
// Weights are kept as unsigned codes. gemv_q and experts_few multiply the codes themselves and
// apply scales and offsets to sums of products, so they round no weight.
//
// Lane l of a warp holds the codes that mma.m16n8k16 needs from it: rows l / 4 and l / 4 + 8, and
// in each 16 columns the four from 4 * (l % 4) on. That makes 8 codes of each row in a unit.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald::tiles {

inline constexpr int kRows = 16;
inline constexpr int kPartCols = 128;
inline constexpr int kUnits = kPartCols / 32;

// The codes of a lane's word: four pairs, each of two neighbouring columns. The first two pairs are
// for the unit's first 16 columns.
struct LaneWord {
  int row;   // in the group
  int unit;  // in the part
  // Column in the unit of pair 0. Pair 1 is 2 columns further, pairs 2 and 3 are 16 further.
  int first;

  SKALD_HD LaneWord(int lane, int unit, int half)
      : row(lane / 4 + 8 * half), unit(unit), first(lane % 4 * 4) {}
  SKALD_HD int col(int pair, int i) const {
    return unit * 32 + first + pair / 2 * 16 + pair % 2 * 2 + i;
  }
};

}  // namespace skald::tiles
