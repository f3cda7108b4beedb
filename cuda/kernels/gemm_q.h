// How gemm_q_sm90 splits a product over blocks; shared by its parts alone (kernels/linear.h has
// what others call).
#pragma once

#include "cuda/kernels/linear.h"

namespace skald::cuda {

struct GemmQPlan {
  int tile_rows;               // activation rows of a block: 32, 64 or 128
  int row_tiles;               // blocks beside each other with the same weights
  int groups;                  // of 16 weight rows, in all
  int tile_groups;             // of a block, one a warp
  int splits;                  // blocks of a cluster: each has a share of the columns
  int records;                 // of a group
  int steps;                   // of a group, of 128 or 256 columns
  int64_t cols;                // of activations, a multiple of 256
  int64_t sums_at, scales_at;  // in the workspace
  int warps;                   // that multiply: whole warpgroups
  // Shared memory: the ring of activations, up to 16 KB a slot; the ring of weights, a step of each
  // group a slot, `pitch` bytes apart. In the end the same memory takes the sums.
  int activation_slots, weight_slots, pitch, slot_bytes, slot_sums_at, bytes;
};

// Where the workspace has what: f16 [row_tiles, cols / 64, tile_rows, 64] with each row's 16-byte
// units swapped as wgmma.cuh says; then of each row for every 256 columns the sums of 32, as the
// f16 next to each and what is left, [row_tiles, cols / 256, tile_rows, 16], swapped too; then a
// float a row, with which results are to be multiplied. Columns are filled up with zeros. Of each
// 16, the first 8 are columns 0, 1, 4, 5, 8, 9, 12, 13: a lane's four columns of weights are its
// two pairs of a product. The others are divided by kOddColumns.

// One of 32, 64 and 128 each, for plan.tile_rows; in files of their own.
void launch_gemm_q_32(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
void launch_gemm_q_64(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
void launch_gemm_q_128(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);

}  // namespace skald::cuda
