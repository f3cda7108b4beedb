// Packs matrices of block formats on the host into the tiles that gemv_q_sm90 reads
// (kernels/tiles/layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cuda/kernels/tiles/tile_bytes.h"
#include "engine/program/tensor.h"

namespace skald::cuda {

// The blocks of row i of the group, or null if the matrix has no such row.
using GroupRow = std::function<const std::byte*(int)>;
void pack_tile_group(DType type, int64_t ins, const GroupRow& row, std::byte* group);

// Packs a whole matrix.
void pack_tiles(const TensorView& matrix, std::byte* tiles);

}  // namespace skald::cuda
