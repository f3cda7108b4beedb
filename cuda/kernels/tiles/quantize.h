// Makes block formats on the GPU, with the same bytes as encode_row() on the CPU: both compile the
// search in engine/quant/fit_search.h. Any GPU from sm_75 on.
#pragma once

#include "cuda/gpu/stream.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

// True if a format has a kernel: if it has a search grid (engine/quant/grids.h). The CPU makes the
// blocks of others.
bool can_quantize(DType to);

struct QuantizeLaunch {
  DType from, to;       // F32, F16 or BF16; a block format
  const void* weights;  // [rows, cols]
  void* blocks;         // [rows, cols]
  int64_t rows, cols;
  // Lowered to first_row + r for each row r with a weight that the format cannot hold
  // (first_unfit()). The blocks of such a row have no meaning.
  unsigned long long* unfit;
  unsigned long long first_row;
};
void launch_quantize(const QuantizeLaunch& launch, Stream stream);

}  // namespace skald::cuda
