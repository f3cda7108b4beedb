// Lists the tensors of a random model: their names, formats and shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/quant/dtype.h"
#include "models/random/random_shapes.h"
#include "models/random/random_types.h"

namespace skald {

struct PlannedTensor {
  std::string name;
  DType type;
  int64_t rows, cols;
  int64_t stacked;  // number of experts' matrices in the tensor; 0: a single matrix
  int64_t offset;   // of its bytes in the memory of all tensors
};

struct RandomPlan {
  std::vector<PlannedTensor> tensors;
  int64_t bytes = 0;  // of all tensors
};

RandomPlan plan_weights(const RandomShape& shape, const RandomType& type);

}  // namespace skald
