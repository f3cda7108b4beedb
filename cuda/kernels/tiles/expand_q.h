// Rows of a quantized matrix as plain 16-bit numbers, for products by cuBLAS.
#pragma once

#include "cuda/gpu/stream.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

struct ExpandLaunch {
  DType format;       // a block format
  const void* tiles;  // the whole matrix (kernels/tiles/layout.h)
  int64_t ins;
  int64_t first, rows;     // rows [first, first + rows); `first` is a multiple of 16
  DType type;              // F16 or BF16
  void* out;               // [rows, ins], at a multiple of 16 bytes
  bool dependent = false;  // starts before the kernel ahead ends, and writes after it
};

// Rounds each weight, as the format's decode() gives it, to the nearest number of `type`. Any GPU
// from sm_75 on.
void launch_expand_q(const ExpandLaunch& launch, Stream stream);

}  // namespace skald::cuda
