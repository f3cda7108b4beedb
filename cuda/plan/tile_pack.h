// Matrices of block formats as gemv_q_sm90 reads them (kernels/tiles/layout.h), packed on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "engine/program/tensor.h"

namespace skald::cuda {

// Of a group of 16 rows; `type` is a block format.
int64_t tile_group_bytes(DType type, int64_t ins);
int64_t tile_bytes(DType type, int64_t outs, int64_t ins);

// Row i of the group in blocks, or null beyond the matrix.
using GroupRow = std::function<const std::byte*(int)>;
void pack_tile_group(DType type, int64_t ins, const GroupRow& row, std::byte* group);

// All of a matrix.
void pack_tiles(const TensorView& matrix, std::byte* tiles);

}  // namespace skald::cuda
