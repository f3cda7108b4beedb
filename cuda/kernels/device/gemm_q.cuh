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
#include "cuda/kernels/device/shares.cuh"
#include "cuda/kernels/device/wgmma.cuh"
#include "cuda/kernels/gemm_q.h"

namespace skald::cuda {

inline constexpr int kGemmMostSlots = 16;

// What a block takes at a time: 256 columns, of weights of 8 bits 128.
template <class F>
inline constexpr int kStepRecords = F::Codes::kBytes < 2048 ? 2 / F::kParts : 1;
template <class F>
inline constexpr int kStepParts = kStepRecords<F> * F::kParts;
template <class F>
inline constexpr int kStepCols = kStepRecords<F> * F::kRecordCols;

// Most groups of a block, by the registers that a thread needs.
template <int kRows>
inline constexpr int kMostGroups = kRows == 128 ? 12 : 16;

#if SKALD_HAS_WGMMA

// Columns of activations in a slot of their ring: 16 KB, or as many as a slot of weights has.
template <class F, int kRows>
inline constexpr int kChunkCols = kStepCols<F> < 8192 / kRows ? kStepCols<F> : 8192 / kRows;
template <class F, int kRows>
inline constexpr int kChunkBytes = kRows* kChunkCols<F, kRows> * 2;

struct GemmRing {
  char* slots;
  uint64_t *full, *empty;
};

// What a block does.
struct GemmShare {
  int first_group, groups;  // of weight rows
  int row_tile;
  int first_step, steps, parts;
  template <class F>
  __device__ GemmShare(F, const GemmQPlan& plan)
      : first_group(static_cast<int>(blockIdx.z) * plan.tile_groups),
        groups(min(plan.tile_groups, plan.groups - first_group)),
        row_tile(static_cast<int>(blockIdx.y)),
        first_step(plan.steps * static_cast<int>(blockIdx.x) / plan.splits),
        steps(plan.steps * (static_cast<int>(blockIdx.x) + 1) / plan.splits - first_step),
        parts(min(steps * kStepParts<F>, plan.records * F::kParts - first_step * kStepParts<F>)) {}
};

template <class F>
__device__ void fetch_weights(const LinearLaunch& a, const GemmQPlan& plan, const GemmShare& share,
                              const GemmRing& ring) {
  constexpr int kRecords = kStepRecords<F>;
  const uint64_t policy = plan.row_tiles == 1 ? evict_first_policy() : evict_normal_policy();
  const int first = share.first_step * kRecords;
  const char* weight = static_cast<const char*>(a.weight) +
                       (int64_t{share.first_group} * plan.records + first) * F::kRecordBytes;
  Turn turn;
  for (int i = 0; i < share.steps; ++i, turn.next(plan.weight_slots)) {
    const uint32_t bytes =
        min(kRecords, plan.records - first - i * kRecords) * uint32_t{F::kRecordBytes};
    if (turn.lap > 0) barrier_wait(&ring.empty[turn.slot], (turn.lap - 1) & 1);
    if (elect_lane()) {
      barrier_expect_bytes(&ring.full[turn.slot], share.groups * bytes);
      char* slot = ring.slots + turn.slot * plan.tile_groups * plan.pitch;
      const char* from = weight + i * (kRecords * F::kRecordBytes);
      for (int g = 0; g < share.groups; ++g) {
        bulk_copy(slot + g * plan.pitch, from + int64_t{g} * plan.records * F::kRecordBytes, bytes,
                  &ring.full[turn.slot], policy);
      }
    }
    __syncwarp();
  }
}

template <class F, int kRows>
__device__ void fetch_activations(const LinearLaunch& a, const GemmQPlan& plan,
                                  const GemmShare& share, const GemmRing& ring) {
  constexpr int kBytes = kChunkBytes<F, kRows>, kCols = kChunkCols<F, kRows>;
  const uint64_t policy = evict_normal_policy();
  const char* rows = static_cast<const char*>(a.workspace) +
                     share.row_tile * (plan.cols * kRows * 2) +
                     int64_t{share.first_step} * kStepCols<F> * kRows * 2;
  const int chunks = (share.parts * tiles::kPartCols + kCols - 1) / kCols;
  Turn turn;
  wait_for_kernel_ahead();
  for (int i = 0; i < chunks; ++i, turn.next(plan.activation_slots)) {
    if (turn.lap > 0) barrier_wait(&ring.empty[turn.slot], (turn.lap - 1) & 1);
    if (elect_lane()) {
      barrier_expect_bytes(&ring.full[turn.slot], kBytes);
      bulk_copy(ring.slots + turn.slot * kBytes, rows + int64_t{i} * kBytes, kBytes,
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
  const bool has_group = warp < share.groups;  // or computes what nobody reads
  constexpr uint64_t kRowsDescriptor = matrix_descriptor(0, 1024, 0);
  constexpr int kChunk = kChunkCols<F, kRows>, kBatch = kRows == 32 ? 4 : 2, kBatchCols = kBatch * 16;
  // While one batch is multiplied the next becomes f16.
  uint32_t a[2][kBatch][4] = {};
  const uint32_t weights_full = held_address(weights.full);
  const uint32_t weights_empty = held_address(weights.empty);
  const uint32_t full = held_address(activations.full), empty = held_address(activations.empty);
  const uint32_t first_rows = held_address(activations.slots) >> 4;
  const int slot_bytes = plan.tile_groups * plan.pitch;
  const char* mine = weights.slots + min(warp, share.groups - 1) * plan.pitch;
  Turn weight_turn, turn;
  int done = -1;  // the slot of activations that nothing reads once the batch ahead is multiplied
  uint32_t rows = 0;
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
#pragma unroll 1
  for (int left = share.parts; left > 0; left -= kStepParts<F>) {
    const char* at = mine + weight_turn.slot * slot_bytes;
    barrier_wait(weights_full + weight_turn.slot * 8, weight_turn.lap & 1);
#pragma unroll
    for (int part = 0; part < kStepParts<F>; ++part) {
      if (part > 0 && kStepRecords<F> > 1 && left == part) break;
      LaneWeights<F> lane_weights;
      if (has_group) {
        lane_weights.load(at + part / F::kParts * F::kRecordBytes, part % F::kParts, lane);
      }
      if (part == kStepParts<F> - 1) {
        __syncwarp();
        if (lane == 0) barrier_arrive(weights_empty + weight_turn.slot * 8);
      }
#pragma unroll
      for (int col = 0; col < tiles::kPartCols; col += kBatchCols) {
        auto& batch = a[col / kBatchCols % 2];
        const int at_chunk = (part * tiles::kPartCols + col) % kChunk;
        if (has_group) {
#pragma unroll
          for (int i = 0; i < kBatch; ++i) {
            const int k = col / 16 + i;
            lane_weights.fragment(k / 2, k % 2, batch[i]);
          }
        }
        if (at_chunk == 0) {
          barrier_wait(full + turn.slot * 8, turn.lap & 1);
          // The same in all lanes, as the compiler is to know: of a descriptor the half that
          // changes.
          rows = __shfl_sync(~0u, first_rows + turn.slot * (kChunkBytes<F, kRows> >> 4), 0);
        }
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int k = at_chunk / 16 + i;
          wgmma_rows(Half(), sums, batch[i],
                     kRowsDescriptor | (rows + k / 4 * (kRows * 8) + k % 4 * 2));
        }
        wgmma_commit();
        wgmma_wait<1>();
        if (at_chunk == 0) {
          if (lane == 0 && done >= 0) barrier_arrive(empty + done * 8);
          done = turn.slot;
          turn.next(plan.activation_slots);
        }
      }
    }
    weight_turn.next(plan.weight_slots);
  }
  wgmma_wait<0>();
}

// `count` numbers, at most kMost, in one access where that is possible.
template <class T, int kMost>
__device__ void store_numbers(T* to, const float* x, int count) {
  Pack<T, kMost> pack;
#pragma unroll
  for (int i = 0; i < kMost; ++i) pack.x[i] = from_float<T>(x[i]);
  if (count == kMost && reinterpret_cast<uintptr_t>(to) % sizeof pack == 0) {
    *reinterpret_cast<Pack<T, kMost>*>(to) = pack;
    return;
  }
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    if (i < count) to[i] = pack.x[i];
  }
}

// Results of up to four weight rows from `out` on; x has room for what is not stored.
template <class T>
__device__ void store_results(const LinearLaunch& a, int64_t row, int64_t out, int count,
                              const float (&x)[4]) {
  T* to = static_cast<T*>(a.out) + row * a.out_stride;
  if (a.epilogue == Epilogue::Gated) {
    const float two[2] = {activate(x[0], a.activation) * x[1], activate(x[2], a.activation) * x[3]};
    store_numbers<T, 2>(to + out / 2, two, count / 2);
  } else {
    store_numbers<T, 4>(to + out, x, count);
  }
}

// The cluster's sums lie in its blocks' shared memory, [kRows, pitch] each, of which each block
// adds up some rows. A warp takes 128 weight rows of an activation row, several of these at a time,
// so that what they read is under way together.
template <int kRows>
__device__ void finish(const LinearLaunch& a, const GemmQPlan& plan, const GemmShare& share,
                       float* sums, int pitch) {
  constexpr int kTogether = 4;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int rank = static_cast<int>(blockIdx.x), first_row = share.row_tile * kRows;
  const float* scales = reinterpret_cast<const float*>(static_cast<const char*>(a.workspace) +
                                                       plan.cols * plan.row_tiles * kRows * 2) +
                        first_row;
  const int rows = min(kRows, a.rows - first_row);
  const int first = rows * rank / plan.splits, end = rows * (rank + 1) / plan.splits;
  const int64_t first_out = int64_t{share.first_group} * tiles::kRows;
  const bool two = share.groups > 8;  // times 128 weight rows
  const int items = (end - first) << two;
  for (int item = warp; item < items; item += plan.warps * kTogether) {
    float x[kTogether][4] = {}, old[kTogether][4] = {}, scale[kTogether] = {};
    int row[kTogether], four[kTogether], count[kTogether];
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const int mine = item + r * plan.warps;
      row[r] = first + (mine >> two);
      four[r] = (two ? mine % 2 * 32 : 0) + lane;
      const int64_t left = min(int64_t{4}, a.outs - first_out - four[r] * 4);
      const bool valid = mine < items && four[r] < share.groups * (tiles::kRows / 4);
      count[r] = valid ? static_cast<int>(left) : 0;
      if (count[r] <= 0) continue;
      scale[r] = scales[row[r]];
      if (a.epilogue != Epilogue::AddTo) continue;
      const float* from = static_cast<const float*>(a.out) + (first_row + row[r]) * a.out_stride +
                          first_out + four[r] * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < count[r]) old[r][i] = __ldcg(from + i);
      }
    }
#pragma unroll 2
    for (int block = 0; block < plan.splits; ++block) {
      const float* from = of_block(sums, block);
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        if (count[r] <= 0) continue;
        const float4 part = *reinterpret_cast<const float4*>(from + row[r] * pitch + four[r] * 4);
        x[r][0] += part.x, x[r][1] += part.y, x[r][2] += part.z, x[r][3] += part.w;
      }
    }
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      if (count[r] <= 0) continue;
      const int64_t out = first_out + four[r] * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float bias = a.bias && i < count[r] ? a.bias[out + i] : 0;
        x[r][i] = a.scale * (x[r][i] * scale[r] + bias) + old[r][i];
      }
      if (a.epilogue != Epilogue::Store && a.epilogue != Epilogue::Gated) {
        store_results<float>(a, first_row + row[r], out, count[r], x[r]);
      } else if (a.type == DType::BF16) {
        store_results<Bf16>(a, first_row + row[r], out, count[r], x[r]);
      } else {
        store_results<Half>(a, first_row + row[r], out, count[r], x[r]);
      }
    }
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
  const GemmRing weights = {shared + plan.activation_slots * kChunkBytes<F, kRows>, barriers[2],
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

  const GemmShare share(F(), plan);
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
