// Zero points of the groups of one row, taken from its integers.
#pragma once

#include <span>

#include "models/checkpoints/rows.h"

namespace skald {

// zero(group) gives the row's zero point of a group.
template <class Zero>
void subtract_zeros(std::span<int16_t> row, const ColumnGroups& groups, const Zero& zero) {
  groups.for_each_run(std::ssize(row), [&](int64_t group, int64_t first, int64_t end) {
    const int least = zero(group);
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
      row[i] = static_cast<int16_t>(row[i] - least);
    }
  });
}

// The least and the greatest of some zero points.
struct ZeroRange {
  int least = 1 << 15, most = -(1 << 15);

  void add(int zero) {
    least = std::min(least, zero);
    most = std::max(most, zero);
  }
};

}  // namespace skald
