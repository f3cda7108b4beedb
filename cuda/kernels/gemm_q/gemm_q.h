// How gemm_q_sm90 splits a product over blocks; shared by its parts alone (kernels/linear.h has
// what others call).
#pragma once

#include "cuda/kernels/gemm_q/gemm_q_workspace.h"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

// So many bits of one over the splits are right for products below 2^16, and leave room in 32 bits
// for counts below 2^13: of steps of 128 columns and more, so of so many columns.
inline constexpr int kInverseBits = 19;
inline constexpr int64_t kGemmQMostIns = 128 * ((int64_t{1} << (32 - kInverseBits)) - 1);
static_assert(kGemmQMostIns / 128 << kInverseBits <= UINT32_MAX);

struct GemmQPlan {
  int tile_rows;        // activation rows of a block: 8, 16, 32, 64 or 128
  int row_tiles;        // blocks beside each other with the same weights
  int groups;           // of 16 weight rows, in all
  int tile_groups;      // of a block, one a warp
  int tiles;            // of so many groups,
  int wide_tiles;       // of which those after so many
  int less;             // have so many groups fewer
  int splits;           // blocks of a cluster: each has a share of the columns
  unsigned inverse;     // of splits, for divide_by_splits()
  float column_share;   // one over the columns
  int records;          // of a group
  int steps;            // of a group, of 128 or 256 columns
  GemmQPlaces at;       // of activations
  GemmQPlaces next_at;  // and of those that the product leaves for the next
  float next_odd;       // kOddColumns of the next
  int warps;            // that multiply: whole warpgroups
  // Shared memory: the ring of activations, up to 16 KB a slot; the ring of weights, a step of each
  // group a slot, `pitch` bytes apart. In the end the same memory takes the sums.
  int activation_slots, weight_slots, pitch, slot_bytes, slot_sums_at, bytes;
};

// What a product has of the GPU.
struct GemmQRoom {
  int multiprocessors;
  ClusterRoom clusters;
  double share = 1;  // of all
};

// gemm_q_plan.cu: how a product, or a pair, is done soonest. No bytes: it fits no block.
GemmQPlan plan_gemm_q(const LinearLaunch& launch, const GemmQRoom& room);
struct GemmQPair {
  LinearLaunch a, b;
  GemmQPlan plan, b_plan;
};
GemmQPair plan_gemm_q_pair(const LinearLaunch& a, const LinearLaunch& b, const GemmQRoom& room);
float odd_columns(DType format);  // kOddColumns

// One of 8, 16, 32, 64 and 128 each, for plan.tile_rows; in files of their own.
void launch_gemm_q_8(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
void launch_gemm_q_16(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
void launch_gemm_q_32(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
void launch_gemm_q_64(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
void launch_gemm_q_128(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
// Pairs of tiles/pairs.h that share activations; of more rows nothing waits for a second launch.
inline constexpr int kGemmQPairRows = 64;
void launch_gemm_q_pair_8(const GemmQPair& pair, Stream stream);
void launch_gemm_q_pair_16(const GemmQPair& pair, Stream stream);
void launch_gemm_q_pair_32(const GemmQPair& pair, Stream stream);
void launch_gemm_q_pair_64(const GemmQPair& pair, Stream stream);

}  // namespace skald::cuda
