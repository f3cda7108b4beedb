// Packs matrices of block formats on the host into the tiles that gemv_q_sm90 reads
// (kernels/tiles/layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "engine/program/tensor.h"

namespace skald::cuda {

// Bytes of a group of 16 rows, and of a whole matrix. `type` is a block format.
int64_t tile_group_bytes(DType type, int64_t ins);
int64_t tile_bytes(DType type, int64_t outs, int64_t ins);

// The blocks of row i of the group, or null if the matrix has no such row.
using GroupRow = std::function<const std::byte*(int)>;
void pack_tile_group(DType type, int64_t ins, const GroupRow& row, std::byte* group);

// Packs a whole matrix.
void pack_tiles(const TensorView& matrix, std::byte* tiles);

}  // namespace skald::cuda
