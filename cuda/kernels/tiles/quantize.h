// Blocks of weights, made on the GPU: the same as encode_row() makes, bit for bit
// (engine/quant/fit_search.h has the search for both). Any GPU from sm_75 on.
#pragma once

#include "cuda/kernels/launch.h"

namespace skald::cuda {

// Whether a format has a kernel: all have that are made at all (DTypeInfo::encode_row).
bool can_quantize(DType to);

struct QuantizeLaunch {
  DType from, to;       // F32, F16 or BF16; a block format
  const void* weights;  // [rows, cols]
  void* blocks;         // [rows, cols]
  int64_t rows, cols;
  // Becomes the least of itself and first_row + r of rows with a weight that does not fit
  // (first_unfit()), whose block has no meaning.
  unsigned long long* unfit;
  unsigned long long first_row;
};
void launch_quantize(const QuantizeLaunch& launch, Stream stream);

}  // namespace skald::cuda
