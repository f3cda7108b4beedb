// out = W · in for up to 256 rows and a quantized W, with Hopper's warpgroup products. Weights
// become f16 in registers. Activations lie in shared memory as f16, with a power of two for each
// row. Sums are float32 (gemm_q.cuh). Floors: the weights' bytes at the memory's speed, and 2 *
// outs * ins * rows operations at the rate of dense f16 products.
//
// This file has the kernel that prepares activations, and the launches. gemm_q_plan.cu decides how
// much a block does.
#include <algorithm>

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/gemm_q/gemm_q.cuh"
#include "cuda/kernels/gemm_q/gemm_q.h"
#include "cuda/kernels/prepared_rows.h"
#include "cuda/kernels/tiles/odd_columns.h"
#include "cuda/kernels/tiles/pairs.h"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kMostThreads = 1024;  // threads of a block, which has a row

template <class T>
__device__ void load_sixteen(const T* from, float (&x)[16]) {
  const auto* packs = reinterpret_cast<const Pack<T, 8>*>(from);
#pragma unroll
  for (int i = 0; i < 16; ++i) x[i] = to_float(packs[i / 8].x[i % 8]);
}
__device__ inline void load_sixteen(const float* from, float (&x)[16]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 four = reinterpret_cast<const float4*>(from)[i];
    x[4 * i] = four.x, x[4 * i + 1] = four.y, x[4 * i + 2] = four.z, x[4 * i + 3] = four.w;
  }
}

// Sixteen columns of a row, times the norm's weights, and the sum of their squares without these
// weights.
struct Columns {
  float x[16] = {};
  float squares = 0;

  __device__ void load(const LinearLaunch& a, int row, int64_t col, const float (&weight)[16]) {
    const int64_t at = row * a.ins + col;
    if (a.norm_weight) {
      load_sixteen(static_cast<const float*>(a.in) + at, x);
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        squares += x[i] * x[i];
        x[i] *= weight[i];
      }
    } else if (a.type == DType::BF16) {
      load_sixteen(static_cast<const Bf16*>(a.in) + at, x);
    } else {
      load_sixteen(static_cast<const Half*>(a.in) + at, x);
    }
  }
  __device__ float most() const {
    float most = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) most = fmaxf(most, fabsf(x[i]));
    return most;
  }
};

// The sum and the maximum over a block's threads; every thread gets both. The order does not depend
// on the number of rows. The two reductions hide each other's latency.
struct SumMax {
  float sum, most;
  __device__ void over_warp() {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(~0u, sum, offset);
      most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
    }
  }
  __device__ void over_block() {
    __shared__ float2 warps[kMostThreads / 32];
    over_warp();
    const unsigned lane = threadIdx.x % 32;
    if (lane == 0) warps[threadIdx.x / 32] = {sum, most};
    __syncthreads();
    const float2 mine = lane < blockDim.x / 32 ? warps[lane] : float2{0, 0};
    sum = mine.x, most = mine.y;
    over_warp();
  }
};

// Prepares activations, one block per row; rows beyond the step's become zeros. A thread has 16
// columns at a time. In very long rows it has more, and reads them twice.
__global__ void __launch_bounds__(kMostThreads)
    gemm_q_prepare(__grid_constant__ const LinearLaunch a, __grid_constant__ const GemmQPlan plan,
                   float odd) {
  const int row = static_cast<int>(blockIdx.x), tile_rows = plan.tile_rows;
  const int64_t cols = plan.at.cols;
  char* const values = static_cast<char*>(a.gemm_q.workspace);
  float* const scales = reinterpret_cast<float*>(values + plan.at.scales);
  const int tile_row = row % tile_rows;
  const int64_t first = threadIdx.x * 16, step = blockDim.x * 16;
  const int64_t ins = row < a.rows ? a.ins : 0;
  let_next_kernel_start();
  float weight[16] = {};
  if (a.norm_weight && first < ins) load_sixteen(a.norm_weight + first, weight);
  wait_for_kernel_ahead();
  Columns mine;
  if (first < ins) mine.load(a, row, first, weight);
  float most = mine.most(), squares = mine.squares;
  for (int64_t col = first + step; col < ins; col += step) {
    if (a.norm_weight) load_sixteen(a.norm_weight + col, weight);
    Columns more;
    more.load(a, row, col, weight);
    most = fmaxf(most, more.most());
    squares += more.squares;
  }
  SumMax all = {squares, most};
  all.over_block();
  most = all.most;
  const float norm =
      a.norm_weight ? rsqrtf(all.sum / static_cast<float>(a.ins) + a.norm_eps) : 1.0f;
  const RowScale scale(most * norm);
  const RowTile to(values, plan.at, tile_rows, row / tile_rows);
  for (int64_t col = first; col < cols; col += step) {
    if (col > first) {
      mine = {};
      if (a.norm_weight && col < ins) load_sixteen(a.norm_weight + col, weight);
      if (col < ins) mine.load(a, row, col, weight);
    }
#pragma unroll
    // The norm is multiplied in separately, since the product of all factors may leave float's
    // range.
    for (float& x : mine.x) x *= norm;
    const Sixteen numbers(mine.x, scale.up, odd);
    to.put(numbers, tile_row, col);
    float sum = numbers.sum(odd);
    // Sixteen threads have 256 columns, so the lanes of this shuffle are all active.
    sum += __shfl_xor_sync(0xffffu << (threadIdx.x & 16), sum, 1);
    if (threadIdx.x % 2 == 0) to.put_sum(sum, tile_row, col);
  }
  if (threadIdx.x > 0) return;
  scales[row] = row < a.rows ? scale.down : 0;
  if (a.gemm_q.carried && a.norm_weight) {
    reinterpret_cast<float*>(static_cast<char*>(a.gemm_q.carried) + plan.at.norms)[row] = norm;
  }
}

void prepare(const LinearLaunch& a, const GemmQPlan& plan, Stream stream) {
  if (a.gemm_q.takes_carried || a.gemm_q.takes_prepared) return;
  const int row_threads = static_cast<int>(std::min<int64_t>(plan.at.cols / 16, kMostThreads));
  launch_kernel(
      gemm_q_prepare,
      {dim3(plan.row_tiles * plan.tile_rows), (row_threads + 31) / 32 * 32, 0, a.dependent}, stream,
      a, plan, odd_columns(a.format));
}

}  // namespace

void launch_gemm_q_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  check(a.gemm_q.workspace, "gemm_q_sm90 has a workspace");
  check(!a.gemm_q.next_norm_weight ||
            (a.epilogue == Epilogue::AddTo && a.gemm_q.carried && a.outs % 256 == 0),
        "a product that can leave activations for the next");
  check(!a.gemm_q.prepares.memory ||
            (a.epilogue == Epilogue::Gated && a.gemm_q.takes_carried && a.outs % 512 == 0),
        "a gated product that can leave activations for the next");
  check(!a.gemm_q.prepares.memory || a.gemm_q.prepares.tile_rows == gemm_q_tile_rows(a.rows),
        "activations that are left for a product of the same rows");
  check(!a.gemm_q.takes_prepared || !(a.norm_weight || a.gemm_q.takes_carried ||
                                      a.gemm_q.first_piece || a.gemm_q.next_piece),
        "a product by itself and without norm takes what is left for it");
  const GemmQPlan plan = plan_gemm_q(
      a, {multiprocessors, a.gemm_q.room ? *a.gemm_q.room : cluster_room(), a.gemm_q.share});
  check(plan.bytes > 0, "a product that fits no block");
  if (!a.gemm_q.next_piece) prepare(a, plan, stream);
  if (plan.tile_rows == 8) {
    launch_gemm_q_8(a, plan, stream);
  } else if (plan.tile_rows == 16) {
    launch_gemm_q_16(a, plan, stream);
  } else if (plan.tile_rows == 32) {
    launch_gemm_q_32(a, plan, stream);
  } else if (plan.tile_rows == 64) {
    launch_gemm_q_64(a, plan, stream);
  } else {
    launch_gemm_q_128(a, plan, stream);
  }
}

void launch_gemm_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors,
                             Stream stream) {
  check(a.gemm_q.workspace && a.gemm_q.workspace == b.gemm_q.workspace, "a pair has one workspace");
  check(a.rows == b.rows && a.ins == b.ins && a.gemm_q.takes_carried == b.gemm_q.takes_carried,
        "a pair has the same activations");
  if (!tiles::dispatch_pair(a.format, b.format, [](auto) {})) {
    return launch_gemm_q_pair_sm90(b, a, multiprocessors, stream);
  }
  const GemmQPair pair =
      plan_gemm_q_pair(a, b, {multiprocessors, a.gemm_q.room ? *a.gemm_q.room : cluster_room()});
  check(pair.plan.bytes > 0, "a pair that fits blocks");
  prepare(a, pair.plan, stream);
  if (pair.plan.tile_rows == 8) {
    launch_gemm_q_pair_8(pair, stream);
  } else if (pair.plan.tile_rows == 16) {
    launch_gemm_q_pair_16(pair, stream);
  } else if (pair.plan.tile_rows == 32) {
    launch_gemm_q_pair_32(pair, stream);
  } else {
    launch_gemm_q_pair_64(pair, stream);
  }
}

template <>
void launch_product<kernel_id("gemm_q_sm90")>(const ProductCall& call) {
  const LinearLaunch& first = call.pieces.front();
  if (call.pieces.size() == 2) {
    launch_gemm_q_pair_sm90(first, call.pieces[1], call.multiprocessors, call.stream);
  } else {
    launch_gemm_q_sm90(first, call.multiprocessors, call.stream);
  }
}

}  // namespace skald::cuda
