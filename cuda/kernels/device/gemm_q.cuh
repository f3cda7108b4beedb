// The kernel of gemm_q_sm90 for kRows activation rows a block. Warp w of a block has the tile's
// w-th group of 16 weight rows: four of them are the 64 rows of a warpgroup's product, of which
// each lane makes its weights from codes in registers. Two more warps fetch weights and activations
// into rings. The blocks of a cluster have a share of the columns each, and add up their sums in
// the end in the order of the shares, each block for some of the rows.
#pragma once

#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/lane_weights.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/wgmma.cuh"
#include "cuda/kernels/gemm_q.h"

namespace skald::cuda {

inline constexpr int kGemmMostSlots = 16;
inline constexpr int kChunkCols = 64;

// Most groups of a block, by the registers that a thread needs.
template <int kRows>
inline constexpr int kMostGroups = kRows == 128 ? 12 : 16;

#if SKALD_HAS_WGMMA

template <int kRows>
inline constexpr int kChunkBytes = kRows* kChunkCols * 2;

// A place in a ring, and how often it was passed.
struct RingTurn {
  int slot = 0;
  unsigned lap = 0;
  __device__ void next(int slots) {
    if (++slot == slots) {
      slot = 0;
      ++lap;
    }
  }
};

struct GemmRing {
  char* slots;
  uint64_t *full, *empty;
};

// What a block does.
struct GemmShare {
  int first_group, groups;  // of weight rows
  int row_tile;
  int first_record, end_record;
  __device__ explicit GemmShare(const GemmQPlan& plan)
      : first_group(static_cast<int>(blockIdx.z) * plan.tile_groups),
        groups(min(plan.tile_groups, plan.groups - first_group)),
        row_tile(static_cast<int>(blockIdx.y)),
        first_record(plan.records * static_cast<int>(blockIdx.x) / plan.splits),
        end_record(plan.records * (static_cast<int>(blockIdx.x) + 1) / plan.splits) {}
};

template <class F>
__device__ void fetch_weights(const LinearLaunch& a, const GemmQPlan& plan, const GemmShare& share,
                              const GemmRing& ring) {
  const uint64_t policy = plan.row_tiles == 1 ? evict_first_policy() : evict_normal_policy();
  const char* weight = static_cast<const char*>(a.weight);
  RingTurn turn;
  for (int record = share.first_record; record < share.end_record;
       ++record, turn.next(plan.weight_slots)) {
    if (turn.lap > 0) barrier_wait(&ring.empty[turn.slot], (turn.lap - 1) & 1);
    if (elect_lane()) {
      barrier_expect_bytes(&ring.full[turn.slot],
                           static_cast<uint32_t>(share.groups * F::kRecordBytes));
      char* slot = ring.slots + turn.slot * plan.tile_groups * plan.pitch;
      for (int g = 0; g < share.groups; ++g) {
        const int64_t from = int64_t{share.first_group + g} * plan.records + record;
        bulk_copy(slot + g * plan.pitch, weight + from * F::kRecordBytes, F::kRecordBytes,
                  &ring.full[turn.slot], policy);
      }
    }
    __syncwarp();
  }
}

template <class F, int kRows>
__device__ void fetch_activations(const LinearLaunch& a, const GemmQPlan& plan,
                                  const GemmShare& share, const GemmRing& ring) {
  constexpr int kChunks = F::kRecordCols / kChunkCols;
  const uint64_t policy = evict_normal_policy();
  const char* rows =
      static_cast<const char*>(a.workspace) + share.row_tile * (plan.cols * kRows * 2);
  RingTurn turn;
  wait_for_kernel_ahead();
  for (int chunk = share.first_record * kChunks; chunk < share.end_record * kChunks;
       ++chunk, turn.next(plan.activation_slots)) {
    if (turn.lap > 0) barrier_wait(&ring.empty[turn.slot], (turn.lap - 1) & 1);
    if (elect_lane()) {
      barrier_expect_bytes(&ring.full[turn.slot], kChunkBytes<kRows>);
      bulk_copy(ring.slots + turn.slot * kChunkBytes<kRows>,
                rows + int64_t{chunk} * kChunkBytes<kRows>, kChunkBytes<kRows>,
                &ring.full[turn.slot], policy);
    }
    __syncwarp();
  }
}

// sums[16 of this warp's 64 weight rows, kRows] over the block's share of the columns.
template <class F, int kRows>
__device__ void multiply(float (&sums)[kRows / 2], const GemmQPlan& plan, const GemmShare& share,
                         const GemmRing& weights, const GemmRing& activations) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // Warps without a group compute what nobody reads.
  const int group = min(warp, share.groups - 1);
  uint32_t a[2][4][4];
  RingTurn weight_turn, turn;
  int last_slot = -1;
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
#pragma unroll 1
  for (int record = share.first_record; record < share.end_record;
       ++record, weight_turn.next(plan.weight_slots)) {
    const char* at = weights.slots + (weight_turn.slot * plan.tile_groups + group) * plan.pitch;
    barrier_wait(&weights.full[weight_turn.slot], weight_turn.lap & 1);
#pragma unroll 1
    for (int part = 0; part < F::kParts; ++part) {
      LaneWeights<F> lane_weights;
      lane_weights.load(at, part, lane);
      if (part == F::kParts - 1) {
        __syncwarp();
        if (lane == 0) barrier_arrive(&weights.empty[weight_turn.slot]);
      }
#pragma unroll
      for (int chunk = 0; chunk < 2; ++chunk) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          lane_weights.fragment(chunk * 2 + k / 2, k % 2, a[chunk][k]);
        }
        barrier_wait(&activations.full[turn.slot], turn.lap & 1);
        const uint32_t rows = shared_address(activations.slots) + turn.slot * kChunkBytes<kRows>;
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          wgmma_rows(Half(), sums, a[chunk][k], matrix_descriptor(rows + k * 32, 1024, 0));
        }
        wgmma_commit();
        wgmma_wait<1>();
        if (last_slot >= 0 && lane == 0) barrier_arrive(&activations.empty[last_slot]);
        last_slot = turn.slot;
        turn.next(plan.activation_slots);
      }
    }
  }
  wgmma_wait<0>();
}

__device__ inline void store_number(const LinearLaunch& a, int64_t at, float x) {
  if (a.type == DType::BF16) {
    static_cast<Bf16*>(a.out)[at] = from_float<Bf16>(x);
  } else {
    static_cast<Half*>(a.out)[at] = from_float<Half>(x);
  }
}

// Results of weight rows `out` and the next, of activation row `row`.
__device__ inline void finish_two(const LinearLaunch& a, int row, int64_t out, float2 x) {
  const bool second = out + 1 < a.outs;
  if (a.bias) {
    x.x += a.bias[out];
    if (second) x.y += a.bias[out + 1];
  }
  const int64_t to = row * a.out_stride;
  if (a.epilogue == Epilogue::Gated) {
    store_number(a, to + out / 2, activate(x.x, a.activation) * x.y);
  } else if (a.epilogue == Epilogue::Store) {
    store_number(a, to + out, x.x);
    if (second) store_number(a, to + out + 1, x.y);
  } else {
    float* floats = static_cast<float*>(a.out) + to + out;
    const bool add = a.epilogue == Epilogue::AddTo;
    floats[0] = x.x + (add ? __ldcg(floats) : 0);
    if (second) floats[1] = x.y + (add ? __ldcg(floats + 1) : 0);
  }
}

// The cluster's sums lie in its blocks' shared memory, [kRows, pitch] each.
template <int kRows>
__device__ void finish(const LinearLaunch& a, const GemmQPlan& plan, const GemmShare& share,
                       float* sums, int pitch) {
  const int rank = static_cast<int>(blockIdx.x), threads = plan.warps * 32;
  const int pairs = plan.tile_groups * (tiles::kRows / 2);
  const float* scales = reinterpret_cast<const float*>(static_cast<const char*>(a.workspace) +
                                                       plan.cols * plan.row_tiles * kRows * 2) +
                        share.row_tile * kRows;
  const int rows = min(kRows, a.rows - share.row_tile * kRows);
  const int first = rows * rank / plan.splits, end = rows * (rank + 1) / plan.splits;
  const int64_t first_out = int64_t{share.first_group} * tiles::kRows;
  for (int i = static_cast<int>(threadIdx.x); i < (end - first) * pairs; i += threads) {
    const int row = first + i / pairs, pair = i % pairs;
    const int64_t out = first_out + pair * 2;
    if (out >= a.outs) continue;
    float2 sum = {0, 0};
#pragma unroll 4
    for (int block = 0; block < plan.splits; ++block) {
      const float2 part =
          *reinterpret_cast<const float2*>(of_block(sums, block) + row * pitch + pair * 2);
      sum.x += part.x, sum.y += part.y;
    }
    const float scale = scales[row];
    finish_two(a, share.row_tile * kRows + row, out, {sum.x * scale, sum.y * scale});
  }
}

#endif

template <class F, int kRows>
__global__ void __launch_bounds__(kMostGroups<kRows> * 32 + 64, 1)
    gemm_q_sm90(__grid_constant__ const LinearLaunch a, __grid_constant__ const GemmQPlan plan) {
#if SKALD_HAS_WGMMA
  extern __shared__ char dynamic[];
  __shared__ __align__(8) uint64_t barriers[4][kGemmMostSlots];
  char* shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const GemmRing activations = {shared, barriers[0], barriers[1]};
  const GemmRing weights = {shared + plan.activation_slots * kChunkBytes<kRows>, barriers[2],
                            barriers[3]};
  if (threadIdx.x < kGemmMostSlots) {
    barrier_init(&activations.full[threadIdx.x], 1);
    barrier_init(&activations.empty[threadIdx.x], plan.warps);
    barrier_init(&weights.full[threadIdx.x], 1);
    barrier_init(&weights.empty[threadIdx.x], plan.warps);
    barrier_init_fence();
  }
  __syncthreads();
  let_next_kernel_start();

  const GemmShare share(plan);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (warp == plan.warps) {
    fetch_weights<F>(a, plan, share, weights);
  } else if (warp == plan.warps + 1) {
    fetch_activations<F, kRows>(a, plan, share, activations);
  } else {
    wait_for_kernel_ahead();
    float sums[kRows / 2];
    multiply<F, kRows>(sums, plan, share, weights, activations);
    // All have read the rings; four floats more, so that no two lanes meet in a bank.
    const int pitch = plan.tile_groups * tiles::kRows + 4;
    float* to = reinterpret_cast<float*>(shared);
    asm volatile("bar.sync 1, %0;" ::"r"(plan.warps * 32) : "memory");
    if (warp < share.groups) {
      float* mine = to + lane % 4 * 2 * pitch + warp * tiles::kRows + lane / 4;
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) {
        mine[(i / 4 * 8 + i % 2) * pitch + i % 4 / 2 * 8] = sums[i];
      }
    }
    cluster_arrive();
    cluster_wait();
    finish<kRows>(a, plan, share, to, pitch);
    cluster_arrive();  // nobody leaves while others read
    cluster_wait();
  }
#endif
}

template <int kRows>
void launch_gemm_q(const LinearLaunch& a, const GemmQPlan& plan, Stream stream) {
  tiles::dispatch(a.format, [&](auto format) {
    using F = decltype(format);
    if constexpr (F::kTable != tiles::Table::Mxfp4) {
      const auto kernel = gemm_q_sm90<F, kRows>;
      SKALD_CUDA(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, plan.bytes));
      const int tiles = (plan.groups + plan.tile_groups - 1) / plan.tile_groups;
      launch_kernel(kernel,
                    {dim3(plan.splits, plan.row_tiles, tiles), plan.warps * 32 + 64,
                     static_cast<size_t>(plan.bytes), a.dependent, plan.splits},
                    stream, a, plan);
    }
  });
}

}  // namespace skald::cuda
