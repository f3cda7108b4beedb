#include "engine/cpu/row_deltas.h"

#include <algorithm>

namespace skald::cpu {
namespace {

// The widest results of the first and of the second factors.
struct Widest {
  int64_t down = 0, up = 0;
};

Widest widest(const Program& program) {
  Widest most;
  for (const AdaptedMatrix& matrix : program.adapted) {
    for (size_t a = 0; a < matrix.down.size(); ++a) {
      if (matrix.down[a] == WeightId::None) continue;
      most.down = std::max(most.down, program.weight(matrix.down[a]).view.rows);
      most.up = std::max(most.up, program.weight(matrix.up[a]).view.rows);
    }
  }
  return most;
}

}  // namespace

int64_t delta_floats(const Program& program) {
  const Widest most = widest(program);
  return most.down + most.up;
}

RowDeltas::RowDeltas(const Program& program, Kernels& kernels, RowOps& row_ops, int64_t most_rows)
    : program_(program),
      kernels_(kernels),
      row_ops_(row_ops),
      most_rows_(most_rows),
      rows_(most_rows * delta_floats(program) * int64_t{sizeof(float)}, "adapters") {}

void RowDeltas::run(const Delta& op, std::span<const int32_t> adapters) {
  const AdaptedMatrix& matrix = program_.adapted[static_cast<size_t>(op.matrix)];
  const int64_t in_cols = program_.act(op.in).cols, out_cols = program_.act(op.out).cols;
  float* const low = rows_.as<float>();
  float* const change = low + most_rows_ * widest(program_).down;
  for (size_t first = 0, end = 0; first < adapters.size(); first = end) {
    const auto adapter = static_cast<size_t>(adapters[first]);
    for (end = first; end < adapters.size() && adapters[end] == adapters[first];) ++end;
    if (matrix.down[adapter] == WeightId::None) continue;
    const auto row = static_cast<int64_t>(first), rows = static_cast<int64_t>(end - first);
    const float* in = row_ops_.data(op.in) + row * in_cols;
    float* out = row_ops_.data(op.out) + row * out_cols;
    kernels_.linear({program_.weight(matrix.down[adapter]).view, nullptr, in, low, rows});
    kernels_.linear({program_.weight(matrix.up[adapter]).view, nullptr, low, change, rows});
    kernels_.add({out, change, rows * out_cols});
  }
}

}  // namespace skald::cpu
