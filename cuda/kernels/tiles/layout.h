// How a quantized matrix lies in GPU memory, made for gemv_q_sm90. Groups of 16 rows, one after the
// other; a group is a row of records, each of 128 or 256 columns; ends are padded with zeros. Of a
// record, 128 columns are a part: what one warp multiplies at a time.
//
// Numbers are kept as unsigned codes and multiplied as they are, by tensor cores: a code's bits are
// those of the f16 number code * 2^-24. Scales and offsets are applied to sums of products. So no
// weight is ever rounded.
//
// In a part, lane l holds the codes that mma.m16n8k16 wants from it: rows l / 4 and l / 4 + 8, and
// of every 16 columns the four from 4 * (l % 4) on. 32 columns are a unit: 8 codes of each row.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald::tiles {

inline constexpr int kRows = 16;
inline constexpr int kPartCols = 128;
inline constexpr int kUnits = kPartCols / 32;

// Which codes a lane's word has: four pairs, of which the first two are for the unit's first 16
// columns. The two of a pair are neighbours.
struct LaneWord {
  int row;    // of the group
  int unit;   // of the part
  int first;  // column of the unit, of the first pair; the second pair is 2 further, the next 16

  SKALD_HD LaneWord(int lane, int unit, int half)
      : row(lane / 4 + 8 * half), unit(unit), first(lane % 4 * 4) {}
  SKALD_HD int col(int pair, int i) const {
    return unit * 32 + first + pair / 2 * 16 + pair % 2 * 2 + i;
  }
};

}  // namespace skald::tiles
