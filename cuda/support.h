// Which models the kernels can run.
#pragma once

#include <string>

#include "engine/program.h"

namespace skald::cuda {

// The one number format of a model's matrices, which the kernels' activations have too; or why
// there are no kernels for it.
struct MatrixType {
  DType type;
  std::string problem;
};
MatrixType find_matrix_type(const Program& program);

DType matrix_type(const Program& program);  // throws the problem

}  // namespace skald::cuda
