// Launch parameters of an embedding, from plain rows (pointwise/) or from tiles (tiles/).
#pragma once

#include <cstdint>

#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

// x[row] = scale * weight[tokens[row]]
struct EmbedLaunch {
  DType type;
  const void* weight;     // [vocab, dim]
  const int32_t* tokens;  // [rows]
  float* x;               // [rows, dim]
  int rows;
  int64_t dim;
  float scale = 1;
  bool dependent = false;  // a dependent launch: the kernel ahead picks the tokens
};

}  // namespace skald::cuda
