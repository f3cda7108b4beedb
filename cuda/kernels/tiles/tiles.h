// Kernels for quantized matrices in the layout of tiles/layout.h. One packs a matrix from rows of
// blocks into tiles; the other reads rows of it as an embedding. Any GPU from sm_75 on.
#pragma once

#include "cuda/gpu/stream.h"
#include "cuda/kernels/embed.h"

namespace skald::cuda {

struct PackLaunch {
  DType format;      // a block format
  const void* rows;  // [outs, ins] in blocks, one row after the other
  int64_t outs, ins;
  void* tiles;  // whole groups of 16 rows: tile_bytes(format, outs, ins)
};
void launch_pack_tiles(const PackLaunch& launch, Stream stream);

// launch_embed() for a block format.
void launch_embed_q(const EmbedLaunch& launch, Stream stream);

}  // namespace skald::cuda
