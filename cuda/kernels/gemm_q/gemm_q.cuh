// The kernel of gemm_q_sm90, for kRows activation rows per block.
//
// Warp w of a block has the tile's w-th group of 16 weight rows. Four such warps are a warpgroup,
// whose products have 64 weight rows. Each lane turns codes into weights in registers. One more
// warpgroup fetches weights and activations into rings. It also computes the norms of carried rows,
// which the kernel ahead has stored without their norm. The blocks of a cluster divide the columns.
// In the end they add up their sums in the order of the blocks, each block for some of the rows.
//
// A warp is limited by its instructions: 160 for a part of a tile in Q4_K. While products run, they
// keep the ports of the registers busy, and other instructions advance at a quarter of their speed.
#pragma once

#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/shares.cuh"
#include "cuda/kernels/device/wgmma.cuh"
#include "cuda/kernels/gemm_q/gemm_q_finish.cuh"
#include "cuda/kernels/prepared_rows.h"
#include "cuda/kernels/tiles/lane_weights.cuh"
#include "cuda/kernels/tiles/prepared_rows.cuh"

namespace skald::cuda {

inline constexpr int kGemmMostSlots = 16;

inline constexpr int kFetchWarps = 4, kWeightWarps = kFetchWarps - 1;  // last: activations
// Registers of a thread: the warps that fetch give back what the warps that multiply take.
inline constexpr int kFetchRegisters = 32, kMultiplyRegisters = 112;

#if SKALD_HAS_WGMMA

// Columns of activations in a slot of their ring: 16 KB, or fewer if a slot of weights has fewer.
template <class F, int kRows>
inline constexpr int kChunkCols = kStepCols<F> < 8192 / kRows ? kStepCols<F> : 8192 / kRows;
template <class F, int kRows>
inline constexpr int kChunkBytes = kRows* kChunkCols<F, kRows> * 2;

struct GemmRing {
  char* slots;
  uint64_t *full, *empty;
};

// The offset of a group's weights from their place in a slot. It is their offset in a line of 128
// bytes of memory: otherwise a copy would write two lines for each line that it reads. `record`
// counts from the matrix's first record.
template <class F>
__device__ int line_offset(unsigned record) {
  return static_cast<int>(record * F::kRecordBytes % 128);
}

// The work of one of the warps that fetch weights: every kWeightWarps-th group. A single warp could
// not issue copies as fast as memory delivers.
template <class F>
__device__ void fetch_weights(const LinearLaunch& a, const GemmQPlan& plan, const GemmShare& share,
                              const GemmRing& ring, int warp) {
  constexpr int kRecords = kStepRecords<F>;
  const uint64_t policy = plan.row_tiles == 1 ? evict_first_policy() : evict_normal_policy();
  const int first = share.first_step * kRecords;
  const int groups = (share.groups - warp + kWeightWarps - 1) / kWeightWarps;
  const unsigned stride = static_cast<unsigned>(kWeightWarps * plan.records);
  unsigned record = static_cast<unsigned>((share.first_group + warp) * plan.records + first);
  Turn turn;
#pragma unroll 1
  for (int i = 0; i < share.steps; ++i, turn.next(plan.weight_slots), record += kRecords) {
    const uint32_t bytes =
        min(kRecords, plan.records - first - i * kRecords) * uint32_t{F::kRecordBytes};
    if (turn.lap > 0) barrier_wait(&ring.empty[turn.slot], (turn.lap - 1) & 1);
    if (elect_lane()) {
      barrier_expect_bytes(&ring.full[turn.slot], static_cast<uint32_t>(groups) * bytes);
      char* to = ring.slots + turn.slot * plan.slot_bytes + warp * plan.pitch;
      const char* from = static_cast<const char*>(a.weight) + int64_t{record} * F::kRecordBytes;
      unsigned offset = line_offset<F>(record);
#pragma unroll 2
      for (int g = 0; g < groups; ++g) {
        bulk_copy(to + offset, from, bytes, &ring.full[turn.slot], policy);
        to += kWeightWarps * plan.pitch;
        from += int64_t{stride} * F::kRecordBytes;
        offset = (offset + stride * F::kRecordBytes) % 128;
      }
    }
    __syncwarp();
  }
}

// The work of the warp that fetches activations. Sums of activations go into the slots of weights.
template <class F, int kRows>
__device__ void fetch_activations(const LinearLaunch& a, const GemmQPlan& plan,
                                  const GemmShare& share, const GemmRing& weights,
                                  const GemmRing& ring) {
  constexpr int kBytes = kChunkBytes<F, kRows>, kCols = kChunkCols<F, kRows>;
  constexpr int kSumBytes = kRows * kRowSumBytes;
  const uint64_t policy = evict_normal_policy();
  const auto* from =
      static_cast<const char*>(a.gemm_q.takes_carried ? a.gemm_q.carried : a.gemm_q.workspace);
  const char* rows = from + share.row_tile * (plan.at.cols * kRows * 2) +
                     int64_t{share.first_step} * kStepCols<F> * kRows * 2;
  const char* sums =
      from + plan.at.sums + (share.row_tile * (plan.at.cols / 256) + share.first_step) * kSumBytes;
  Turn turn, weight_turn;
  if (!a.gemm_q.next_piece) wait_for_kernel_ahead();
  if (a.gemm_q.first_piece) let_next_kernel_start();
  for (int left = share.parts; left > 0; left -= kStepParts<F>) {
    if constexpr (kSumsApart<F>) {
      uint64_t* full = &weights.full[weight_turn.slot];
      if (weight_turn.lap > 0) {
        barrier_wait(&weights.empty[weight_turn.slot], (weight_turn.lap - 1) & 1);
      }
      if (elect_lane()) {
        barrier_expect_bytes(full, kSumBytes);
        bulk_copy(weights.slots + weight_turn.slot * plan.slot_bytes + plan.slot_sums_at, sums,
                  kSumBytes, full, policy);
      }
      __syncwarp();
      sums += kSumBytes;
      weight_turn.next(plan.weight_slots);
    }
#pragma unroll 1
    for (int col = 0; col < min(left, kStepParts<F>) * tiles::kPartCols; col += kCols) {
      if (turn.lap > 0) barrier_wait(&ring.empty[turn.slot], (turn.lap - 1) & 1);
      if (elect_lane()) {
        barrier_expect_bytes(&ring.full[turn.slot], kBytes);
        bulk_copy(ring.slots + turn.slot * kBytes, rows, kBytes, &ring.full[turn.slot], policy);
      }
      __syncwarp();
      rows += kBytes;
      turn.next(plan.activation_slots);
    }
  }
}

// Loads the factor of each row's sums. The multiplying warps call it.
template <int kRows>
__device__ void load_scales(const LinearLaunch& a, const GemmQPlan& plan, const GemmShare& share,
                            float* scales) {
  const auto* from = static_cast<const char*>(a.gemm_q.workspace) + plan.at.scales;
  if (threadIdx.x < kRows) {
    scales[threadIdx.x] =
        __ldcg(reinterpret_cast<const float*>(from) + share.row_tile * kRows + threadIdx.x);
  }
}

// Like load_scales(), for carried rows: computes their norms. The fetching warps call it once they
// have issued all copies; the rings hold enough for the time that this takes.
template <int kRows>
__device__ void norm_scales(const LinearLaunch& a, const GemmQPlan& plan, const GemmShare& share,
                            float* scales) {
  char* const memory = static_cast<char*>(a.gemm_q.carried);
  const int warp = static_cast<int>(threadIdx.x) / 32 - plan.warps;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = share.row_tile * kRows, count = min(kRows, a.rows - first_row);
  const int fours = static_cast<int>(plan.at.cols / 128);
  // Four lanes share a row.
#pragma unroll 1
  for (int row = warp * 8 + lane / 4; row - lane / 4 < count; row += kFetchWarps * 8) {
    const int64_t at = first_row + min(row, count - 1);
    const auto* squares = reinterpret_cast<const float4*>(memory + plan.at.squares) + at * fours;
    float sum = 0;
#pragma unroll 2
    for (int i = lane % 4; i < fours; i += 4) {
      const float4 four = __ldcg(squares + i);
      sum += (four.x + four.y) + (four.z + four.w);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (lane % 4 > 0 || row >= count) continue;
    const float norm = rsqrtf(fmaf(sum, plan.column_share, a.norm_eps));
    scales[row] = __ldcg(reinterpret_cast<const float*>(memory + plan.at.scales) + at) * norm;
    const bool stores_norm = !a.gemm_q.next_piece && blockIdx.x == 0 && blockIdx.z == 0;
    if (stores_norm) reinterpret_cast<float*>(memory + plan.at.norms)[at] = norm;
  }
}

// Keeps x in a register: the compiler would compute it anew at each use.
__device__ inline int held(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// sums[the warp's 16 weight rows, kRows], over the block's share of the columns.
template <class F, int kRows>
__device__ void multiply(float (&sums)[kRows / 2], const GemmQPlan& plan, const GemmShare& share,
                         const GemmRing& weights, const GemmRing& activations) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // A warp without a group repeats the last one; nobody reads its results.
  const int group = min(warp, share.groups - 1);
  constexpr uint64_t kRowsDescriptor = matrix_descriptor(0, 1024, 0);
  constexpr uint64_t kSumsDescriptor = narrow_matrix_descriptor(0, 256);
  constexpr int kChunk = kChunkCols<F, kRows>, kBatch = kRows <= 32 ? 4 : kRows == 64 ? 2 : 1;
  constexpr int kBatchCols = kBatch * 16;
  // While one batch is multiplied, the next becomes f16.
  uint32_t a[2][kBatch][4];
  // One register has the addresses of all barriers: they lie in this order in shared memory.
  const uint32_t full = held_address(activations.full);
  const uint32_t empty = full + kGemmMostSlots * 8, weights_full = full + kGemmMostSlots * 16;
  const uint32_t weights_empty = full + kGemmMostSlots * 24;
  const uint32_t first_rows = held_address(activations.slots) >> 4;
  const uint32_t first_sums = held_address(weights.slots + plan.slot_sums_at) >> 4;
  const int slot_bytes = plan.slot_bytes, group_at = group * plan.pitch;
  unsigned record = static_cast<unsigned>(share.first_group + group) * plan.records +
                    share.first_step * kStepRecords<F>;
  Turn weight_turn, turn;
  int done = -1;  // slot of activations that the last batch frees when it is multiplied
  uint64_t rows = 0;
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
#pragma unroll 1
  for (int left = share.parts; left > 0; left -= kStepParts<F>, record += kStepRecords<F>) {
    const char* at =
        weights.slots + held(weight_turn.slot * slot_bytes + group_at + line_offset<F>(record));
    barrier_wait(weights_full + weight_turn.slot * 8, weight_turn.lap & 1);
    uint32_t mins[4] = {}, sums_at = 0;
    if constexpr (kSumsApart<F>) {
      uint32_t two[2];
      LaneWeights<F>::mins(two, at, left, lane);
      mins[0] = mins[2] = two[0], mins[1] = mins[3] = two[1];
      sums_at = __shfl_sync(~0u, first_sums + weight_turn.slot * (slot_bytes >> 4), 0);
    }
#pragma unroll
    for (int part = 0; part < kStepParts<F>; ++part) {
      if (part > 0 && kStepRecords < F >> 1 && left == part) break;
      LaneWeights<F> lane_weights;
      lane_weights.load(at + part / F::kParts * F::kRecordBytes, part % F::kParts, lane);
      if (part == kStepParts<F> - 1) {
        __syncwarp();
        if (lane == 0) barrier_arrive(weights_empty + weight_turn.slot * 8);
      }
#pragma unroll
      for (int col = 0; col < tiles::kPartCols; col += kBatchCols) {
        auto& batch = a[col / kBatchCols % 2];
        const int at_chunk = (part * tiles::kPartCols + col) % kChunk;
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int k = col / 16 + i;
          lane_weights.fragment(k / 2, k % 2, batch[i]);
        }
        if (at_chunk == 0) {
          barrier_wait(full + turn.slot * 8, turn.lap & 1);
          // The shuffle shows the compiler that this half of the descriptor is the same in all
          // lanes.
          rows = kRowsDescriptor |
                 __shfl_sync(~0u, first_rows + turn.slot * (kChunkBytes<F, kRows> >> 4), 0);
        }
        wgmma_fence();
        if constexpr (kSumsApart<F>) {
          if (part == 0 && col == 0) wgmma_rows(Half(), sums, mins, kSumsDescriptor | sums_at);
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int k = at_chunk / 16 + i;
          wgmma_rows(Half(), sums, batch[i], rows + (k / 4 * (kRows * 8) + k % 4 * 2));
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

template <int kRows>
struct GemmQShared {
  uint64_t barriers[4][kGemmMostSlots];
  uint64_t inbox;  // counts the sums that other blocks of the cluster send
  float scales[kRows];
};

// The work of one block: tile number `tile` of the weight rows.
template <class F, int kRows>
__device__ __forceinline__ void run_gemm_q(const LinearLaunch& a, const GemmQPlan& plan, int tile,
                                           GemmQShared<kRows>& own) {
  extern __shared__ char dynamic[];
  auto& barriers = own.barriers;
  auto& scales = own.scales;
  char* shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const GemmRing activations = {shared, barriers[0], barriers[1]};
  const GemmRing weights = {shared + plan.activation_slots * kChunkBytes<F, kRows>, barriers[2],
                            barriers[3]};
  const GemmShare share(F(), plan, tile);
  init_barriers(plan.activation_slots + plan.weight_slots, [&](int i) {
    const bool weight = i >= plan.activation_slots;
    const GemmRing& ring = weight ? weights : activations;
    const int slot = weight ? i - plan.activation_slots : i;
    barrier_init(&ring.full[slot], weight ? kWeightWarps + (kSumsApart<F> ? 1 : 0) : 1);
    barrier_init(&ring.empty[slot], share.warps);
    if (i == 0) barrier_init(&own.inbox, 1);
  });
  __syncthreads();
  // For the first of several pieces fetch_activations() calls this later. So the next piece's
  // kernel finds the activations prepared when it starts, and it ends after this kernel.
  if (!a.gemm_q.first_piece) let_next_kernel_start();

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (warp >= plan.warps + kFetchWarps) return;  // the other matrix of a pair has more warps
  if (warp >= share.warps && warp < plan.warps) return;  // a wider tile has more warps
  if (warp >= plan.warps) {
    set_registers_down<kFetchRegisters>();
    if (warp < plan.warps + kWeightWarps) {
      fetch_weights<F>(a, plan, share, weights, warp - plan.warps);
    } else {
      fetch_activations<F, kRows>(a, plan, share, weights, activations);
    }
    if (a.gemm_q.takes_carried) {
      if (!a.gemm_q.next_piece) wait_for_kernel_ahead();
      norm_scales<kRows>(a, plan, share, scales);
      __syncwarp();
      asm volatile("bar.arrive 1, %0;" ::"r"((share.warps + kFetchWarps) * 32) : "memory");
    }
  } else {
    set_registers_up<kMultiplyRegisters>();
    if (!a.gemm_q.next_piece) wait_for_kernel_ahead();
    if (!a.gemm_q.takes_carried) load_scales<kRows>(a, plan, share, scales);
    float units[2] = {1, 1};
    if constexpr (F::kFloats) {
      const int64_t group = share.first_group + min(warp, share.groups - 1);
      const char* first =
          static_cast<const char*>(a.weight) + group * plan.records * F::kRecordBytes;
      for (int half = 0; half < 2; ++half) {
        units[half] = LaneWeights<F>::row_unit(first, lane, half);
      }
    }
    float sums[kRows / 2];
    multiply<F, kRows>(sums, plan, share, weights, activations);
    Finish<kRows> rest{a, plan, share, reinterpret_cast<float*>(shared),
                       plan.tile_groups * tiles::kRows + 4};
    if (rest.is_sent() && threadIdx.x == 0) rest.expect(&own.inbox);
    // All warps have read the rings, and the scales are in shared memory.
    const int threads = share.warps + (a.gemm_q.takes_carried ? kFetchWarps : 0);
    asm volatile("bar.sync 1, %0;" ::"r"(threads * 32) : "memory");
    if (rest.is_sent()) cluster_arrive_relaxed();
    if (warp < share.groups) {
      float* mine = rest.sums + lane % 4 * 2 * rest.pitch + warp * tiles::kRows + lane / 4;
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) {
        const int row = i / 4 * 8 + i % 2;
        const float sum = sums[i] * scales[row + lane % 4 * 2];
        mine[row * rest.pitch + i % 4 / 2 * 8] = F::kFloats ? sum * units[i % 4 / 2] : sum;
      }
    }
    if (rest.is_sent()) {
      // All warps that multiply have stored their sums. After cluster_wait() the memory of all
      // blocks may be written.
      asm volatile("bar.sync 2, %0;" ::"r"(share.warps * 32) : "memory");
      rest.load_old(warp);
      cluster_wait();
      rest.send(&own.inbox);
      receive(&own.inbox, 0);
    } else {
      cluster_arrive();
      rest.load_old(warp);
      cluster_wait();
    }
    rest.run();
    if (plan.splits > 1 && !rest.is_sent()) {
      cluster_arrive_relaxed();  // no block exits while others read its sums
      cluster_wait();
    }
    if (a.gemm_q.next_piece) wait_for_kernel_ahead();
  }
}

#endif

inline constexpr int kGemmQThreads = (kMostGroups + kFetchWarps) * 32;

template <class F, int kRows>
__global__ void __launch_bounds__(kGemmQThreads, 1)
    gemm_q_sm90(__grid_constant__ const LinearLaunch a, __grid_constant__ const GemmQPlan plan) {
#if SKALD_HAS_WGMMA
  __shared__ GemmQShared<kRows> own;
  run_gemm_q<F>(a, plan, static_cast<int>(blockIdx.z), own);
#endif
}

template <int kRows>
void launch_gemm_q(const LinearLaunch& a, const GemmQPlan& plan, Stream stream) {
  tiles::dispatch(a.format, [&](auto format) {
    using F = decltype(format);
    const auto kernel = gemm_q_sm90<F, kRows>;
    SKALD_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, plan.bytes));
    ask_for_all_shared(kernel);
    launch_kernel(kernel,
                  {dim3(plan.splits, plan.row_tiles, plan.tiles), (plan.warps + kFetchWarps) * 32,
                   static_cast<size_t>(plan.bytes), a.dependent, plan.splits},
                  stream, a, plan);
  });
}

}  // namespace skald::cuda
