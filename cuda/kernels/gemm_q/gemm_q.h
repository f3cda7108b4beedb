// How gemm_q_sm90 divides a product among blocks. Only files of this folder include it;
// kernels/linear.h has the interface.
#pragma once

#include "cuda/kernels/linear.h"
#include "cuda/kernels/prepared_rows.h"

namespace skald::cuda {

// Fraction bits of 1 / splits in divide_by_splits(). 19 bits make the quotient exact while count
// times rank is below 2^16, and counts below 2^13 fit in 32 bits. A count is at most the number of
// steps of 128 or 256 columns, so this bounds the columns.
inline constexpr int kInverseBits = 19;
inline constexpr int64_t kGemmQMostIns = 128 * ((int64_t{1} << (32 - kInverseBits)) - 1);
static_assert(kGemmQMostIns / 128 << kInverseBits <= UINT32_MAX);

struct GemmQPlan {
  int tile_rows;           // activation rows of a block: 8, 16, 32, 64 or 128
  int row_tiles;           // blocks beside each other that read the same weights
  int groups;              // groups of 16 weight rows in all
  int tile_groups;         // groups of a block, one for each warp
  int tiles;               // blocks along the weight rows:
  int wide_tiles;          // the first wide_tiles blocks have tile_groups groups,
  int less;                // the others `less` groups fewer
  int splits;              // blocks of a cluster, which divide the columns
  unsigned inverse;        // 1 / splits, for divide_by_splits()
  float column_share;      // one over the columns
  int records;             // records of a group
  int steps;               // steps of a group, each of 128 or 256 columns
  PreparedLayout at;       // places of the activations
  PreparedLayout next_at;  // places of the activations that the product stores for the next one
  float next_odd;          // kOddColumns of the next product's format
  int warps;               // warps that multiply: whole warpgroups
  // Shared memory: the ring of activations, up to 16 KB per slot, and the ring of weights, with a
  // step of each group in a slot, `pitch` bytes apart. In the end the same memory holds the sums.
  int activation_slots, weight_slots, pitch, slot_bytes, slot_sums_at, bytes;
};

// The share of the GPU that a product may use.
struct GemmQRoom {
  int multiprocessors;
  ClusterRoom clusters;
  double share = 1;  // share of the whole GPU
};

// The fastest plan for a product, or for a pair (gemm_q_plan.cu). bytes is 0 if no plan fits a
// block.
GemmQPlan plan_gemm_q(const LinearLaunch& launch, const GemmQRoom& room);
struct GemmQPair {
  LinearLaunch a, b;
  GemmQPlan plan, b_plan;
};
GemmQPair plan_gemm_q_pair(const LinearLaunch& a, const LinearLaunch& b, const GemmQRoom& room);

// A launcher for each value of plan.tile_rows, each in a file of its own.
void launch_gemm_q_8(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
void launch_gemm_q_16(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
void launch_gemm_q_32(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
void launch_gemm_q_64(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
void launch_gemm_q_128(const LinearLaunch& launch, const GemmQPlan& plan, Stream stream);
// For the pairs in tiles/pairs.h that share activations. With more rows a second launch costs
// little compared with the products.
inline constexpr int kGemmQPairRows = 64;
void launch_gemm_q_pair_8(const GemmQPair& pair, Stream stream);
void launch_gemm_q_pair_16(const GemmQPair& pair, Stream stream);
void launch_gemm_q_pair_32(const GemmQPair& pair, Stream stream);
void launch_gemm_q_pair_64(const GemmQPair& pair, Stream stream);

}  // namespace skald::cuda
