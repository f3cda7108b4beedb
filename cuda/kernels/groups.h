// How matrix-vector kernels divide the groups of weight rows among their blocks.
#pragma once

namespace skald::cuda {

// How many groups of weight rows belong to each block from the start. The other groups go to
// whichever block asks first, since some multiprocessors get a tenth more of the memory's bandwidth
// than others. A block with few groups shares none: one group is too much to give away.
inline int groups_of_each(int groups, int blocks) {
  constexpr int kFewGroups = 8;
  const int each = groups / blocks;
  return each < kFewGroups ? each : each * 3 / 4;
}

}  // namespace skald::cuda
