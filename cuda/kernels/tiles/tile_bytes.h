// The size of matrices in tiles. Needs no CUDA.
#pragma once

#include <cstdint>

#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

// Bytes of a group of 16 rows, and of a whole matrix. `type` is a block format.
int64_t tile_group_bytes(DType type, int64_t ins);
int64_t tile_bytes(DType type, int64_t outs, int64_t ins);

}  // namespace skald::cuda
