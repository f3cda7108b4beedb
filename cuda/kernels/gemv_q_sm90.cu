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
constexpr int kThreads = kConsumerThreads + 2 * 32;  // the finisher's and the producer's warps
// What passes between consumers and finisher: a ring of sets of partial sums.
struct Sets {
  float* partials;  // [sets, warp, row, kPartialRow]
  int* groups;      // [sets]
  uint64_t *begun, *ready, *drained;
};

// Adds up the warps' shares and writes results out. For one warp: a lane has the results of weight
// row lane % 16 for every second row, kEach of them.
template <class T, int kEach>
__device__ void finish(const LinearLaunch& a, const Layout& layout, const Sets& sets,
                       const float (*squares)[kWarps]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, weight_row = lane % tiles::kRows;
  const bool gated = a.epilogue == Epilogue::Gated;
  // Beyond the last row its results once more.
  const auto row_of = [&](int i) { return min(lane / tiles::kRows + 2 * i, a.rows - 1); };
  float norms[kEach];
#pragma unroll
  for (float& norm : norms) norm = 1;
  bool first = true;
  for (Turn turn;; turn.next(layout.sets), first = false) {
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
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        sums[i][warp % 2] += set[(warp * a.rows + row_of(i)) * kPartialRow];
      }
    }
    // The squares are there when the first sums are.
    if (first && a.norm_weight) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        float sum = 0;
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) sum += squares[row_of(i)][warp];
        norms[i] = rsqrtf(sum / static_cast<float>(a.ins) + a.norm_eps);
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

// What a warp multiplies next is loaded before it multiplies what it has.
template <class F>
__device__ void consume(const LinearLaunch& a, const Layout& layout, const char* ring,
                        const int* group_at, const Sets& sets, const Activations& activations,
                        uint64_t* full_at, uint64_t* empty_at) {
  constexpr int kParts = kSlotParts<F>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint32_t full = held_address(full_at), empty = held_address(empty_at);
  const uint32_t drained = held_address(sets.drained), ready = held_address(sets.ready);
  // Lanes without a row of their own take the last one's: their results go nowhere.
  const int row = min(lane / 4, a.rows - 1), first = lane % 4 * 2;
  const int even = even_rows(a.rows), pair = min(first, even - 2);
  constexpr int kBlockSums = tiles::kPartCols / F::Scales::kCols * 4;  // bytes
  const LaneActivations in = {
      reinterpret_cast<const char*>(activations.values + row * layout.activation_row) +
          lane % 4 * 16,
      activations.sums + (kSumsByProduct<F> ? row * kBlockSums + lane % 4 * 4 : pair * 4),
      kBlockSums * (kSumsByProduct<F> ? a.rows : even), activations.scales + pair, even};
  const char* records = ring + warp * kParts / F::kParts * F::kRecordBytes;
  const int part_of_record = warp * kParts % F::kParts;
  float* partials = sets.partials + (warp * a.rows + first) * kPartialRow + lane / 4;
  const int mine = min(a.rows - first, 2);  // of the rows of this lane's totals
  Turn turn, set;
  const auto begin = [&](int group) {
    if (set.lap > 0) barrier_wait(drained + set.slot * 8, (set.lap - 1) & 1);
    if (lane == 0) {
      sets.groups[set.slot] = group;
      barrier_arrive(&sets.begun[set.slot]);
    }
    __syncwarp();
  };
  const auto load = [&](LanePart<F>& weights, int i) {
    const int at = part_of_record + i;
    weights.load(records + turn.slot * layout.slot_bytes +
                     (kParts > 1 ? at / F::kParts * F::kRecordBytes : 0),
                 kParts > 1 ? at % F::kParts : at, lane);
  };
  float totals[4] = {};
  int part = warp * kParts, tile = 0;
  // Of a slot that was read.
  const auto release = [&] {
    __syncwarp();
    if (lane == 0) barrier_arrive(empty + turn.slot * 8);
    turn.next(layout.slots);
  };
  // Multiplies the last part of a slot, once the first of the next one is under way. False when
  // there is no next one.
  const auto multiply_last = [&](const LanePart<F>& now, LanePart<F>& next) {
    release();
    barrier_wait(full + turn.slot * 8, turn.lap & 1);
    const int group = group_at[turn.slot];
    load(next, 0);
    if (part < layout.parts) multiply_part<F>(totals, now, part, in);
    part += (kWarps - 1) * kParts + 1;
    if (++tile < layout.tiles) return true;
    tile = 0;
    part = warp * kParts;
    if (set.lap > 0) barrier_wait(drained + set.slot * 8, (set.lap - 1) & 1);
    float* to = partials + set.slot * layout.set_floats;
    if (mine > 0) to[0] = totals[0], to[8] = totals[2];
    if (mine > 1) to[kPartialRow] = totals[1], to[kPartialRow + 8] = totals[3];
    __syncwarp();
    if (lane == 0) barrier_arrive(ready + set.slot * 8);
    set.next(layout.sets);
#pragma unroll
    for (float& total : totals) total = 0;
    if (warp == 0) begin(group);
    return group != kNoMore;
  };

  LanePart<F> now, next;
  barrier_wait(full, 0);
  const int group = group_at[0];
  if (warp == 0) begin(group);
  if (group == kNoMore) return;
  load(now, 0);
  for (;;) {
    if constexpr (kParts > 1) {
      load(next, 1);
      if (part < layout.parts) multiply_part<F>(totals, now, part, in);
      ++part;
      if (!multiply_last(next, now)) break;
    } else {
      if (!multiply_last(now, next)) break;
      if (!multiply_last(next, now)) break;
    }
  }
}

template <class F, class T>
__global__ void __launch_bounds__(kThreads, 2)
    gemv_q_sm90(__grid_constant__ const LinearLaunch a, __grid_constant__ const Layout layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ __align__(8) uint64_t full[kMostSlots], empty[kMostSlots];
  __shared__ __align__(8) uint64_t begun[kMostSets], ready[kMostSets], drained[kMostSets];
  __shared__ int group_at[kMostSlots], set_groups[kMostSets];
  __shared__ float squares[kMostRows][kWarps];
  if (threadIdx.x < layout.slots) {
    barrier_init(&full[threadIdx.x], 1);
    barrier_init(&empty[threadIdx.x], kWarps);
    barrier_init_fence();
  } else if (threadIdx.x >= kMostSlots && threadIdx.x < kMostSlots + layout.sets) {
    const unsigned set = threadIdx.x - kMostSlots;
    barrier_init(&begun[set], 1);
    barrier_init(&ready[set], kWarps);
    barrier_init(&drained[set], 1);
  }
  __syncthreads();
  let_next_kernel_start();

  if (threadIdx.x >= kConsumerThreads + 32) {
    fetch(a, layout, shared, group_at, full, empty);
    return;
  }
  const Sets sets = {reinterpret_cast<float*>(shared + layout.partials_at), set_groups, begun,
                     ready, drained};
  if (threadIdx.x >= kConsumerThreads) {
    wait_for_kernel_ahead();
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
  __syncwarp();
  consume<F>(a, layout, shared, group_at, sets, activations, full, empty);
#endif
}

template <class F, class T>
void launch(const LinearLaunch& a, int multiprocessors, Stream stream) {
  const Layout layout = layout_for<F>(a, multiprocessors);
  SKALD_CUDA(cudaFuncSetAttribute(gemv_q_sm90<F, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kMostBlockBytes));
  SKALD_CUDA(cudaFuncSetAttribute(gemv_q_sm90<F, T>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared));
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
