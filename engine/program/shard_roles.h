// What each op of a Program becomes in a shard (engine/program/shard.h). Only shard*.cpp include
// this file.
#pragma once

#include <vector>

#include "engine/program/program.h"

namespace skald {

// Columns [first, first + count) of a buffer, of `of` in all.
struct Cut {
  int64_t first = 0, count = 0, of = 0;

  bool operator==(const Cut&) const = default;
  // The columns of the same heads in a buffer with heads of another width.
  Cut scaled(int64_t width, int64_t own_width) const {
    return {first / own_width * width, count / own_width * width, of / own_width * width};
  }
  bool whole_heads(int64_t width) const { return first % width == 0 && count % width == 0; }
};

// Returns the first unit of a rank, counted over all ranks. The first rank has as many as any
// other, so that what is planned for it suffices for all.
constexpr int64_t first_unit(int64_t units, int64_t rank, int64_t ranks) {
  return (units * rank + ranks - 1) / ranks;
}

// What a rank does of an op.
struct Role {
  enum class Kind : uint8_t {
    Whole,    // all of it
    Local,    // `cut` of the op's output, from the same columns of its inputs
    Rows,     // Linear: the rows of the weight that give `cut` of the output
    Columns,  // Linear, Experts: the columns that `cut` of the input belongs to; gives a partial
              // sum
  };
  Kind kind = Kind::Whole;
  Cut cut;  // of a buffer that the rank has a part of: its own part
};
using Roles = std::vector<Role>;  // one for each op

// The roles of `shard.rank`. What one rank cannot cut, no rank cuts.
Roles find_roles(const Program& program, const Shard& shard);

// True if the op copies a buffer as it is.
bool copies_all(const Program& program, const HeadPart& op);

}  // namespace skald
