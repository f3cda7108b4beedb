// How matrix-vector kernels divide the groups of weight rows among their blocks.
#pragma once

namespace skald::cuda {

// The groups of weight rows that belong to each block from the start. Blocks take the other groups
// as they become free, because some multiprocessors get a tenth more of the memory's bandwidth than
// others. A block with few groups shares none: one group would be too large a share.
inline int groups_of_each(int groups, int blocks) {
  constexpr int kFewGroups = 8;
  const int each = groups / blocks;
  return each < kFewGroups ? each : each * 3 / 4;
}

}  // namespace skald::cuda
