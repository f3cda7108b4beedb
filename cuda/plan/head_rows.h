// Some rows of each head of a matrix, as a matrix of their own: the loader lays them apart from the
// others on the GPU.
#pragma once

#include <memory>
#include <vector>

#include "engine/program/program.h"

namespace skald::cuda {

// Rows [first, first + count) of each head. All heads have the same number of rows.
struct HeadRowsOf {
  int heads, count, first;
};
// Adds the rows to the program as a weight. The reader that gives them is added to `readers`, which
// must live as long as the program.
WeightId add_head_rows(Program& program, WeightId of, const HeadRowsOf& rows,
                       std::vector<std::shared_ptr<const RowReader>>& readers);

}  // namespace skald::cuda
