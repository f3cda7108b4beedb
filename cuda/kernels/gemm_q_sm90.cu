// out = W · in for up to 256 rows and a quantized W, on Hopper's warpgroup products: weights become
// f16 numbers in registers, activations lie in shared memory as f16 with a power of two for each
// row, sums are float32 (device/gemm_q.cuh). Floors: the weights' bytes at the memory's speed, and
// 2 * outs * ins * rows operations at that of dense f16 products.
//
// Here: what prepares activations, and the choice of how much a block does.
#include <algorithm>
#include <cmath>

#include "cuda/kernels/built_for.h"
#include "cuda/kernels/device/gemm_q.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/gemm_q.h"
#include "cuda/kernels/gemm_q_workspace.h"
#include "cuda/kernels/tiles/formats.h"

namespace skald::cuda {
namespace {

constexpr int kMostThreads = 1024;  // of a row
constexpr int kMostBytes = 226 * 1024;
constexpr int kAlign = 1024;

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

// Sixteen columns of a row, times the norm's weight, and the sum of their squares without it.
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

// The sum and the maximum of a block's threads, for all of them, in the same order for any number
// of rows. What both need of each other's time they share.
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

// One block a row; rows beyond the step's become zeros. A thread has 16 columns, of very long rows
// more, which it reads twice.
__global__ void __launch_bounds__(kMostThreads)
    gemm_q_prepare(__grid_constant__ const LinearLaunch a, __grid_constant__ const GemmQPlan plan,
                   float odd) {
  const int row = static_cast<int>(blockIdx.x), tile_rows = plan.tile_rows;
  const int64_t cols = plan.at.cols;
  char* const values = static_cast<char*>(a.workspace);
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
    for (float& x : mine.x) x *= norm;  // by itself, for all factors together may be too much
    const Sixteen numbers(mine.x, scale.up, odd);
    to.put(numbers, tile_row, col);
    float sum = numbers.sum(odd);
    // Sixteen threads have 256 columns, so all of them are here.
    sum += __shfl_xor_sync(0xffffu << (threadIdx.x & 16), sum, 1);
    if (threadIdx.x % 2 == 0) to.put_sum(sum, tile_row, col);
  }
  if (threadIdx.x > 0) return;
  scales[row] = row < a.rows ? scale.down : 0;
  if (a.handed && a.norm_weight) {
    reinterpret_cast<float*>(static_cast<char*>(a.handed) + plan.at.norms)[row] = norm;
  }
}

__global__ void whole_multiprocessor() {}  // is never launched

// What fits beside the ring of activations; false where two slots do not.
template <class F>
bool fill(GemmQPlan& plan) {
  const int chunk = std::min(kStepCols<F> * plan.tile_rows * 2, 16384);
  plan.warps = (plan.tile_groups + 3) / 4 * 4;
  constexpr int kBytes = kStepRecords<F> * F::kRecordBytes;
  // A record that is no multiple of 128 bytes begins anywhere in a line.
  plan.pitch = (kBytes + (F::kRecordBytes % 128 ? 127 + 128 - 16 : 127)) / 128 * 128;
  plan.slot_sums_at = (plan.tile_groups * plan.pitch + 255) / 256 * 256;
  plan.slot_bytes = plan.slot_sums_at + (kSumsApart<F> ? plan.tile_rows * kRowSumBytes : 0);
  plan.activation_slots = std::clamp(49152 / chunk, 3, kGemmMostSlots);
  const int left = kMostBytes - kAlign - plan.activation_slots * chunk;
  plan.weight_slots = std::min(left / plan.slot_bytes, kGemmMostSlots);
  const int rings = plan.activation_slots * chunk + plan.weight_slots * plan.slot_bytes;
  const int sums = plan.tile_rows * (plan.tile_groups * tiles::kRows + 4) * 4;
  plan.bytes = std::max(rings, sums) + kAlign;
  return plan.weight_slots >= 2 && plan.bytes <= kMostBytes;
}

// What a product has of the GPU.
struct Room {
  int multiprocessors;
  double share;  // of all
  ClusterRoom clusters;

  int clusters_of(int blocks) const {
    // Where all of them are needed, what is left of the kernel ahead makes the last one wait.
    const double all = blocks == 1 ? multiprocessors : 0.95 * clusters.of[blocks];
    return std::max(1, static_cast<int>(all * share));
  }
};

// Cycles that a product takes, by time stamps of Q4_K: to compare plans. A warp needs so many for
// a part of a tile by itself, and adds so many to those of each other in its quarter of a
// multiprocessor.
template <class F>
double cost(const GemmQPlan& plan, const Room& room) {
  const int at_once = room.clusters_of(plan.splits);
  const int tiles = (plan.groups + plan.tile_groups - 1) / plan.tile_groups * plan.row_tiles;
  const int waves = (tiles + at_once - 1) / at_once;
  const int steps = (plan.steps + plan.splits - 1) / plan.splits;
  const double parts = steps * kStepParts<F>;
  const double loop = parts * (290 + (60 + 5.2 * plan.tile_rows) * (plan.warps / 4));
  // What one multiprocessor, and what all of them can read.
  const double bytes = double{kStepRecords<F>} * F::kRecordBytes * steps * plan.tile_groups;
  const int blocks = std::min(tiles, at_once) * plan.splits;
  const double memory = std::max(bytes / 25, bytes * blocks / (17.0 * room.multiprocessors));
  const int of_warp =
      (plan.tile_rows / plan.splits * (plan.tile_groups > 8 ? 2 : 1) + plan.warps - 1) / plan.warps;
  const double end = 1000.0 * of_warp + (plan.splits > 1 ? 600 + 800 * plan.splits : 0);
  return waves * (3000 + std::max(loop, memory) + end);
}

template <class F>
GemmQPlan make_plan(const LinearLaunch& a, const Room& room) {
  GemmQPlan plan = {}, best = {};
  plan.tile_rows = gemm_q_tile_rows(a.rows);
  plan.row_tiles = (a.rows + plan.tile_rows - 1) / plan.tile_rows;
  plan.groups = static_cast<int>((a.outs + tiles::kRows - 1) / tiles::kRows);
  plan.records = static_cast<int>((a.ins + F::kRecordCols - 1) / F::kRecordCols);
  plan.steps = (plan.records + kStepRecords<F> - 1) / kStepRecords<F>;
  plan.at = GemmQPlaces(a.rows, a.ins);
  plan.next_at = GemmQPlaces(a.rows, a.outs);
  double least = 0;
  for (plan.splits = 1; plan.splits <= std::min(kMostCluster, plan.steps); ++plan.splits) {
    for (plan.tile_groups = 1; plan.tile_groups <= kMostGroups; ++plan.tile_groups) {
      // Sums of 32 columns, of gated ones of 16, are of one block.
      if ((a.next_norm_weight || a.leaves.memory) && plan.tile_groups % 2 > 0) continue;
      if (!fill<F>(plan)) continue;
      const double cycles = cost<F>(plan, room);
      // Of equals, those of fewer blocks, which read activations less often.
      if (best.bytes > 0 && cycles > least) continue;
      best = plan;
      least = cycles;
    }
  }
  return best;
}

float odd_columns(DType format) {
  float columns = 0;
  tiles::dispatch(format, [&](auto f) { columns = kOddColumns<decltype(f)>; });
  return columns;
}

}  // namespace

bool has_gemm_q_sm90(int compute_capability) { return kHasSm90a && compute_capability == 90; }

bool supports_gemm_q_sm90(const LinearLaunch& a, int compute_capability) {
  if (!has_gemm_q_sm90(compute_capability) || a.rows > kGemmQMostRows) return false;
  if (info(a.format).block_elems == 1) return false;
  if (a.type != DType::BF16 && a.type != DType::F16) return false;
  return a.epilogue != Epilogue::Gated || a.outs % 2 == 0;
}

bool gemm_q_shares_activations(DType format, DType other) {
  return odd_columns(format) == odd_columns(other);
}

LeftRows gemm_q_left_rows(const LinearLaunch& a, float bound) {
  constexpr float kLeast = 0x1p-80f, kMost = 0x1p80f;
  if (a.ins % 256 > 0 || !(bound > kLeast && bound < kMost)) return {};
  return {static_cast<char*>(a.workspace), GemmQPlaces(a.rows, a.ins), gemm_q_tile_rows(a.rows),
          std::ldexp(1.0f, 14 - std::ilogb(bound)), odd_columns(a.format)};
}

ClusterRoom cluster_room() {
  ClusterRoom room;
  const auto kernel = whole_multiprocessor;
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes));
  for (int blocks = 1; blocks <= kMostCluster; ++blocks) {
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(blocks);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(128);
    config.dynamicSmemBytes = kMostBytes;
    config.attrs = &cluster;
    config.numAttrs = 1;
    SKALD_CUDA(cudaOccupancyMaxActiveClusters(&room.of[blocks], kernel, &config));
  }
  return room;
}

void launch_gemm_q_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  check(a.workspace, "gemm_q_sm90 has a workspace");
  check(!a.next_norm_weight || (a.epilogue == Epilogue::AddTo && a.handed && a.outs % 256 == 0),
        "a product that can leave activations for the next");
  check(!a.leaves.memory || (a.epilogue == Epilogue::Gated && a.takes_handed && a.outs % 512 == 0),
        "a gated product that can leave activations for the next");
  check(!a.leaves.memory || a.leaves.tile_rows == gemm_q_tile_rows(a.rows),
        "activations that are left for a product of the same rows");
  check(!a.takes_left || !(a.norm_weight || a.takes_handed || a.first_piece || a.next_piece),
        "a product by itself and without norm takes what is left for it");
  GemmQPlan plan = {};
  const Room room = {multiprocessors, a.share, a.room ? *a.room : cluster_room()};
  tiles::dispatch(a.format, [&](auto f) { plan = make_plan<decltype(f)>(a, room); });
  check(plan.bytes > 0, "a product that fits no block");
  if (a.next_norm_weight) plan.next_odd = odd_columns(a.next_format);
  const int row_threads = static_cast<int>(std::min<int64_t>(plan.at.cols / 16, kMostThreads));
  if (!a.next_piece && !a.takes_handed && !a.takes_left) {
    launch_kernel(
        gemm_q_prepare,
        {dim3(plan.row_tiles * plan.tile_rows), (row_threads + 31) / 32 * 32, 0, a.dependent},
        stream, a, plan, odd_columns(a.format));
  }
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

}  // namespace skald::cuda
