// out = W · in for 1 to 8 rows and a quantized W, at the memory's speed: its records (tiles/), read
// once.
//
// One block a multiprocessor. A producer warp fetches tiles of 16 weight rows x 2048 columns, one
// bulk copy each, into a ring in shared memory, without waiting for the kernel ahead. Sixteen
// consumer warps multiply on the tensor cores, 128 columns of the 16 weight rows at a time by up to
// 8 activation rows. Codes are multiplied as whole numbers, scales are applied to sums of 16 or 32
// products, in float32. Finisher warps add up what the consumers leave of 16 weight rows and write
// results, while they are at the next: no meeting of the block in between. Activations are
// f16 with a power of two for every 128, so that none overflows and what a 16-bit number held
// before is kept. The order of every sum is fixed and the same for any number of rows.
#include "cuda/kernels/built_for.h"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/tile_product.cuh"
#include "cuda/kernels/device/tile_ring.cuh"
#include "cuda/kernels/device/tile_rows.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {
namespace {

constexpr int kConsumerThreads = kWarps * 32;
constexpr int kFinishers = 2;
constexpr int kStagingThreads = kConsumerThreads + kFinishers * 32;
constexpr int kThreads = kStagingThreads + 32;  // and the producer
// What passes between consumers and finisher: a ring of sets of partial sums.
struct Sets {
  float* partials;  // [sets, warp, row, kPartialRow]
  int* groups;      // [sets]
  uint64_t *begun, *ready, *drained;
};

// Adds up the warps' shares and writes results out. For one of kFinishers warps, which take turns
// at groups: a lane has the results of weight row lane % 16 for every second row, kEach of them.
template <class T, int kEach>
__device__ void finish(const LinearLaunch& a, const Layout& layout, const Sets& sets,
                       const float (*squares)[kWarps]) {
  constexpr int kTogether = 8;
  const int lane = static_cast<int>(threadIdx.x) % 32, weight_row = lane % tiles::kRows;
  const bool gated = a.epilogue == Epilogue::Gated;
  const int warps = kWarps / layout.teams;
  // Beyond the last row its results once more.
  const auto row_of = [&](int i) { return min(lane / tiles::kRows + 2 * i, a.rows - 1); };
  float norms[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    norms[i] = 1;
    if (!a.norm_weight) continue;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += squares[row_of(i)][warp];
    norms[i] = rsqrtf(sum / static_cast<float>(a.ins) + a.norm_eps);
  }
  Turn turn;
  turn.skip((static_cast<int>(threadIdx.x) - kConsumerThreads) / 32, layout.sets);
  for (;; turn.skip(kFinishers, layout.sets)) {
    barrier_wait(&sets.begun[turn.slot], turn.lap & 1);
    const int group = sets.groups[turn.slot];
    if (group == kNoMore) break;
    const int64_t weight = int64_t{group} * tiles::kRows + weight_row;
    const bool inside = weight < a.outs;
    const float bias = a.bias && inside ? __ldg(a.bias + weight) : 0;
    float old[kEach] = {}, sums[kEach][2] = {};
    if (a.epilogue == Epilogue::AddTo && inside) {
      const float* out = static_cast<const float*>(a.out) + weight;
#pragma unroll
      for (int i = 0; i < kEach; ++i) old[i] = __ldcg(out + row_of(i) * a.out_stride);
    }
    barrier_wait(&sets.ready[turn.slot], turn.lap & 1);
    const float* set = sets.partials + turn.slot * layout.set_floats + weight_row;
#pragma unroll 1
    for (int warp = 0; warp < warps; warp += kTogether) {
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          sums[i][n % 2] += set[((warp + n) * a.rows + row_of(i)) * kPartialRow];
        }
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(&sets.drained[turn.slot]);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float sum = (sums[i][0] + sums[i][1]) * norms[i] + bias;
      const float up = gated ? __shfl_down_sync(~0u, sum, 1) : 0;
      const int row = lane / tiles::kRows + 2 * i;
      if (row >= a.rows || !inside) continue;
      const int64_t at = row * a.out_stride + weight;
      if (gated) {
        if (lane % 2 == 0) {
          static_cast<T*>(a.out)[row * a.out_stride + weight / 2] =
              from_float<T>(activate(sum, a.activation) * up);
        }
      } else if (a.epilogue == Epilogue::Store) {
        static_cast<T*>(a.out)[at] = from_float<T>(sum);
      } else {
        static_cast<float*>(a.out)[at] = old[i] + a.scale * sum;
      }
    }
  }
}

template <class F, int kTeams>
__device__ void consume(const LinearLaunch& a, const Layout& layout, const char* ring,
                        const int* group_at, const Sets& sets, const Activations& activations,
                        uint64_t* full_at, uint64_t* empty_at) {
  constexpr int kTeamWarps = kWarps / kTeams, kParts = kTeams;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int team = static_cast<int>(threadIdx.x) / (32 * kTeamWarps);
  const int warp = static_cast<int>(threadIdx.x) / 32 % kTeamWarps;
  const int first_slot = team * layout.slots;
  const uint32_t full = held_address(full_at + first_slot);
  const uint32_t empty = held_address(empty_at + first_slot);
  const uint32_t drained = held_address(sets.drained), ready = held_address(sets.ready);
  // Lanes without a row of their own take the last one's: their results go nowhere.
  const int row = min(lane / 4, a.rows - 1), first = lane % 4 * 2;
  constexpr int kBlockSums = tiles::kPartCols / F::Scales::kCols * 4;  // bytes
  const LaneActivations in = {
      reinterpret_cast<const char*>(activations.values + row * layout.activation_row) +
          lane % 4 * 16,
      activations.sums + (kSumsByProduct<F> ? row * kBlockSums + lane % 4 * 4 : first * 4),
      kBlockSums * (kSumsByProduct<F> ? a.rows : kMostRows), activations.scales + first};
  const char* records =
      ring + first_slot * layout.slot_bytes + warp * kParts / F::kParts * F::kRecordBytes;
  const int part_of_record = warp * kParts % F::kParts;
  float* partials = sets.partials + (warp * a.rows + first) * kPartialRow + lane / 4;
  const int mine = min(a.rows - first, 2);  // of the rows of this lane's totals
  Turn turn, set;
  if (team > 0) set.next(layout.sets);
  const auto begin = [&](int group) {
    if (set.lap > 0) barrier_wait(drained + set.slot * 8, (set.lap - 1) & 1);
    if (lane == 0) {
      sets.groups[set.slot] = group;
      barrier_arrive(&sets.begun[set.slot]);
    }
    __syncwarp();
  };
  for (;;) {
    barrier_wait(full + turn.slot * 8, turn.lap & 1);
    const int group = group_at[first_slot + turn.slot];
    if (warp == 0) begin(group);
    if (group == kNoMore) {
      // Told to every finisher.
      for (int i = kTeams; i < kFinishers && warp == 0; i += kTeams) {
        set.skip(kTeams, layout.sets);
        begin(group);
      }
      break;
    }
    float totals[4] = {};
#pragma unroll 1
    for (int part = warp * kParts;;) {
      multiply_parts<F, kParts>(totals, records + turn.slot * layout.slot_bytes, part_of_record,
                                part, layout.parts, in);
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + turn.slot * 8);
      turn.next(layout.slots);
      part += kWarps;
      if (part - warp * kParts >= layout.parts) break;
      barrier_wait(full + turn.slot * 8, turn.lap & 1);
    }
    if (set.lap > 0) barrier_wait(drained + set.slot * 8, (set.lap - 1) & 1);
    float* to = partials + set.slot * layout.set_floats;
    if (mine > 0) to[0] = totals[0], to[8] = totals[2];
    if (mine > 1) to[kPartialRow] = totals[1], to[kPartialRow + 8] = totals[3];
    __syncwarp();
    if (lane == 0) barrier_arrive(ready + set.slot * 8);
    set.skip(kTeams, layout.sets);
  }
}

template <class F, class T>
__global__ void __launch_bounds__(kThreads, 1)
    gemv_q_sm90(__grid_constant__ const LinearLaunch a, __grid_constant__ const Layout layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ __align__(8) uint64_t full[kMostSlots], empty[kMostSlots];
  __shared__ __align__(8) uint64_t begun[kMostSets], ready[kMostSets], drained[kMostSets];
  __shared__ int group_at[kMostSlots], set_groups[kMostSets];
  __shared__ float squares[kMostRows][kWarps];
  if (threadIdx.x < layout.slots * layout.teams) {
    barrier_init(&full[threadIdx.x], 1);
    barrier_init(&empty[threadIdx.x], kWarps / layout.teams);
    barrier_init_fence();
  } else if (threadIdx.x >= kMostSlots && threadIdx.x < kMostSlots + layout.sets) {
    const unsigned set = threadIdx.x - kMostSlots;
    barrier_init(&begun[set], 1);
    barrier_init(&ready[set], kWarps / layout.teams);
    barrier_init(&drained[set], 1);
  }
  __syncthreads();
  let_next_kernel_start();

  if (threadIdx.x >= kStagingThreads) {
    fetch(a, layout, shared, group_at, full, empty);
    return;
  }
  const Sets sets = {reinterpret_cast<float*>(shared + layout.partials_at), set_groups, begun,
                     ready, drained};
  if (threadIdx.x >= kConsumerThreads) {
    wait_for_kernel_ahead();
    named_barrier<1, kStagingThreads>();
    if (a.rows <= 2) {
      finish<T, 1>(a, layout, sets, squares);
    } else {
      finish<T, kMostRows / 2>(a, layout, sets, squares);
    }
    return;
  }
  const Activations activations = {a.rows,
                                   layout.parts,
                                   reinterpret_cast<__half*>(shared + layout.activations_at),
                                   layout.activation_row,
                                   reinterpret_cast<float*>(shared + layout.scales_at),
                                   shared + layout.sums_at,
                                   squares};
  if (a.norm_weight) {
    Stage<F, T, true>{a, activations}.run();
  } else {
    Stage<F, T, false>{a, activations}.run();
  }
  named_barrier<1, kStagingThreads>();
  if (layout.teams > 1) {
    consume<F, kMostTeams>(a, layout, shared, group_at, sets, activations, full, empty);
  } else {
    consume<F, 1>(a, layout, shared, group_at, sets, activations, full, empty);
  }
#endif
}

template <class F, class T>
void launch(const LinearLaunch& a, int multiprocessors, Stream stream) {
  const Layout layout = layout_for<F>(a, multiprocessors);
  SKALD_CUDA(cudaFuncSetAttribute(gemv_q_sm90<F, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kMostBlockBytes));
  launch_kernel(gemv_q_sm90<F, T>,
                {dim3(multiprocessors), kThreads, static_cast<size_t>(layout.bytes), a.dependent},
                stream, a, layout);
}

}  // namespace

bool supports_gemv_q_sm90(const LinearLaunch& a, int compute_capability) {
  if (!kHasSm90a || compute_capability != 90 || a.rows > kMostRows) return false;
  if (a.type != DType::BF16 || (a.epilogue == Epilogue::Gated && a.outs % 2 != 0)) return false;
  bool fits = false;
  return tiles::dispatch(a.format, [&](auto f) { fits = layout_for<decltype(f)>(a, 1).enough; }) &&
         fits;
}

void launch_gemv_q_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  check(a.ticket, "gemv_q_sm90 has a ticket");
  tiles::dispatch(a.format, [&](auto f) { launch<decltype(f), Bf16>(a, multiprocessors, stream); });
}

}  // namespace skald::cuda
