// Adds the changes of adapters to products (the op Delta), for rows that have an adapter each. A
// row's result does not depend on the other rows, as with all kernels.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/buffer.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/row_ops.h"

namespace skald::cpu {

// Floats that RowDeltas keeps for each row of a step; 0 for a program without adapters.
int64_t delta_floats(const Program& program);

class RowDeltas {
 public:
  // Borrows all. For steps of at most `most_rows` rows.
  RowDeltas(const Program& program, Kernels& kernels, RowOps& row_ops, int64_t most_rows);

  // adapters: the number of each row's adapter.
  void run(const Delta& op, std::span<const int32_t> adapters);
  int64_t bytes() const { return rows_.bytes(); }

 private:
  const Program& program_;
  Kernels& kernels_;
  RowOps& row_ops_;
  int64_t most_rows_;
  Buffer rows_;  // [most_rows, delta_floats()]: results of `down`, then of `up`
};

}  // namespace skald::cpu
