#include "cuda/support.h"

#include "cuda/cuda.h"
#include "engine/error.h"

namespace skald::cuda {

MatrixType find_matrix_type(const Program& program) {
  const Weight* first = nullptr;
  for (const Weight& weight : program.weights) {
    if (weight.view.rows <= 1) continue;
    const DType type = weight.view.type;
    if (type != DType::F16 && type != DType::BF16 && type != DType::F32) {
      return {type, concat("CUDA has no kernel for products with ", name(type), " weights, as '",
                           weight.name, "' has")};
    }
    if (first && first->view.type != type) {
      return {type, concat("CUDA has no kernels for a model that mixes ", name(first->view.type),
                           " and ", name(type), " matrices, as '", weight.name, "' does")};
    }
    first = &weight;
  }
  return {first ? first->view.type : program.weights.front().view.type, ""};
}

DType matrix_type(const Program& program) {
  const MatrixType found = find_matrix_type(program);
  if (!found.problem.empty()) fail(Exit::Failed, found.problem, "; use --device cpu");
  return found.type;
}

std::string model_problem(const Model& model) { return find_matrix_type(model.program()).problem; }

}  // namespace skald::cuda
