// A block of gemv_q_sm90 (gemv_q_sm90.cu says how it works): who its warps are and what passes
// between them. Also for kernels whose blocks are not all alike.
#pragma once

#include "cuda/kernels/device/digit_product.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/stage_one.cuh"
#include "cuda/kernels/device/tile_ring.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

template <int kTeams>
inline constexpr int kGemvQConsumers = kTeams* kWarps * 32;
template <int kTeams>
inline constexpr int kGemvQThreads = kGemvQConsumers<kTeams> + 2 * 32;  // finisher's, producer's
// A multiprocessor has registers for two blocks, this kernel's and the next one's, or for one of
// attention beside one of these, of two teams too: three of their warps on a scheduler, of 96
// registers, and one of attention's with 224 are all that it has.
template <int kTeams>
inline constexpr int kGemvQBlocks = kTeams == 1 ? 3 : 2;

// What passes between consumers and finisher: a ring of sets of partial sums.
struct Sets {
  float* partials;  // [layout.sets, team, warp, kPartials]
  int* sequence;    // [kGroupsAhead], from the producer
  uint64_t *ready, *drained;
};

// Adds up the warps' shares and writes results out. For one warp: a lane has the results of weight
// row lane % 16, and writes if it is one of the lower.
template <class F, class T, int kTeams>
__device__ void finish(const LinearLaunch& a, const Layout& layout, const Sets& sets,
                       const float* squares) {
  const int lane = static_cast<int>(threadIdx.x) % 32, weight_row = lane % tiles::kRows;
  const bool gated = a.epilogue == Epilogue::Gated, added = a.epilogue == Epilogue::AddTo;
  float norm = 1;
  Turn turn;
  for (int i = 0;; ++i) {
    float bias = 0, old = 0, sum = 0;
    int64_t weight = 0;
    bool inside = false;
    const auto begin = [&](int group) {
      weight = int64_t{group} * tiles::kRows + weight_row;
      inside = weight < a.outs;
      if (!inside) return;
      if (a.bias) bias = __ldg(a.bias + weight);
      if (added) old = __ldcg(static_cast<const float*>(a.out) + weight);
    };
    // A block's own groups are known before they come.
    const int own = TileGroups::own(layout, i);
    if (own != kNoMore) begin(own);
    for (int chunk = 0;;) {
      barrier_wait(&sets.ready[turn.slot], turn.lap & 1);
      if (own == kNoMore && chunk == 0) {
        const int group = sets.sequence[i % kGroupsAhead];
        if (group == kNoMore) return;
        begin(group);
      }
      const float* set = sets.partials + turn.slot * layout.set_floats + weight_row * 4;
      float both[2] = {};
#pragma unroll
      for (int warp = 0; warp < kTeams * kWarps; ++warp) {
        const auto& row = *reinterpret_cast<const float4*>(set + warp * kPartials);
        both[warp % 2] += OneRow<F, kTeams>::added_up(row);
      }
      // The squares are there when the first sums are.
      if (i == 0 && a.norm_weight) {
        float all = 0;
#pragma unroll
        for (int warp = 0; warp < kTeams * kWarps; ++warp) all += squares[warp];
        norm = rsqrtf(all / static_cast<float>(a.ins) + a.norm_eps);
      }
      barrier_arrive(&sets.drained[turn.slot]);
      turn.next(layout.sets);
      sum = fmaf(both[0] + both[1], norm, bias);
      if (added) old = fmaf(a.scale, sum, old);
      if (++chunk == layout.chunks) break;
      bias = 0;
    }
    const float up = gated ? __shfl_down_sync(~0u, sum, 1) : 0;
    if (lane >= tiles::kRows || !inside) continue;
    if (gated) {
      if (lane % 2 == 0) {
        static_cast<T*>(a.out)[weight / 2] =
            from_float<T>(activate_briefly(sum, a.activation) * up);
      }
    } else if (a.epilogue == Epilogue::Store) {
      static_cast<T*>(a.out)[weight] = from_float<T>(sum);
    } else {
      static_cast<float*>(a.out)[weight] = added ? old : a.scale * sum;
    }
  }
}

// The tiles of a block that are its team's, by one of its warps. What is to be multiplied next is
// in registers before a warp multiplies what it has. Where it goes on is the same for all lanes,
// and asked by votes: from these the compiler knows it, and needs no barriers at which lanes meet
// again, which took a quarter of a tile's time. `stage` brings the activations; whatever can be
// done before is done before, since instructions that come once take four times as long as others.
template <class F, int kTeams, class Stage>
__device__ void consume(const Layout& layout, const char* ring, const Slots& slots,
                        const Sets& sets, const Activations& activations, const Stage& stage) {
  using Product = OneRow<F, kTeams>;
  using Weights = typename Product::Weights;
  constexpr int kParts = kWarpParts<F>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int team = kTeams == 1 ? 0 : static_cast<int>(threadIdx.x) / 32 / kWarps;
  const int warp = static_cast<int>(threadIdx.x) / 32 % kWarps;
  const char* held_slots = held_pointer(&slots);
  const uint32_t drained = held_address(sets.drained), ready = held_address(sets.ready);
  Product product(activations, warp * kParts);
  Turn turn, next_turn, set;
  const char *first_slot = held_pointer(ring), *slot = first_slot;
  int tile = 0, end = layout.chunk_tiles;  // of the group, and of its tiles that are added up
  int left_sets = 0, most_sets = 0;
  // An answer takes as long as a fifth of a part, so it is asked for a part ahead of its use.
  uint32_t there = 0, drained_before = 0;
  const auto ask_for_next = [&] {
    next_turn = turn;
    for (int i = 0; i < kTeams; ++i) next_turn.next(layout.slots);
    there = barrier_passed(shared_address(held_slots + next_turn.slot * 8), next_turn.lap & 1);
    drained_before = barrier_passed(drained + set.slot * 8, (set.lap - 1) & 1);
  };
  const auto enter = [&] {
    const char* at = held_slots + turn.slot * 8;
    barrier_wait_unless(there, shared_address(at), turn.lap & 1);
    slot = first_slot + turn.slot * layout.slot_bytes;
    // By the lane that says in the end that the slot may be written again; a vote tells the others.
    if (lane == 0) most_sets = static_cast<int>(load4(at + offsetof(Slots, sets)));
  };
  const auto load = [&](Weights& weights, int i) { product.load(weights, slot, i); };
  const auto release = [&] {
    __syncwarp();
    if (lane == 0) {
      barrier_arrive(shared_address(held_slots + turn.slot * 8 + offsetof(Slots, empty)));
    }
    turn = next_turn;
  };
  const auto leave = [&] {
    // In the first lap nobody waits: the phase before a barrier's first counts as over.
    barrier_wait_unless(drained_before, drained + set.slot * 8, (set.lap - 1) & 1);
    drained_before = 0;
    product.leave(sets.partials + set.slot * layout.set_floats +
                  (tile % kTeams * kWarps + warp) * kPartials);
    barrier_arrive(ready + set.slot * 8);
    set.next(layout.sets);
    ++left_sets;
  };
  // To another tile, maybe beyond groups of which one of two teams has none.
  const auto advance = [&](int tiles) {
    tile += tiles;
    while (__any_sync(~0u, tile >= end)) {
      leave();
      if (end == layout.tiles) tile -= end, end = 0;
      end = min(end + layout.chunk_tiles, layout.tiles);
      if (kTeams == 1) break;
    }
  };
  typename Product::Inputs inputs[2];
  // The i-th part of a tile, while the next is under way.
  const auto multiply = [&](int i, const Weights& now, Weights& next) {
    typename Product::Inputs now_in;
    typename Product::Inputs& in = Product::kKeepsInputs ? inputs[i % 2] : now_in;
    product.load(in, tile * Product::kStep, i);
    if (i + 1 < kParts) {
      load(next, i + 1);
      if (i + 2 == kParts) ask_for_next();
    } else {
      release();
      enter();
      load(next, 0);
    }
    product.multiply(now, in, i);
  };

  if (team > 0) turn.next(layout.slots);
  enter();
  Weights two[2];
  load(two[0], 0);
  stage();
  product.staged();
  if (kTeams > 1) advance(team);
  while (!__any_sync(~0u, most_sets)) {
#pragma unroll
    for (int i = 0; i < kParts; ++i) multiply(i, two[i % 2], two[(i + 1) % 2]);
    advance(kTeams);
  }
  most_sets = __shfl_sync(~0u, most_sets, 0);
  while (left_sets < most_sets) leave();
}

// What a block has in shared memory beside what its layout divides.
struct GemvQShared {
  Slots slots;
  uint64_t ready[kMostSets], drained[kMostSets];
  int sequence[kGroupsAhead];
  float squares[kMostTeams * kWarps];
};

template <class F, class T, int kTeams>
__device__ __forceinline__ void run_gemv_q(const LinearLaunch& a, const Layout& layout,
                                           char* shared, GemvQShared& own) {
  if (threadIdx.x < layout.slots) {
    barrier_init(&own.slots.full[threadIdx.x], 1);
    barrier_init(&own.slots.empty[threadIdx.x], kWarps);
    barrier_init_fence();
  } else if (threadIdx.x >= kMostSlots && threadIdx.x < kMostSlots + kMostSets) {
    const unsigned set = threadIdx.x - kMostSlots;
    barrier_init(&own.ready[set], kGemvQConsumers<kTeams>);
    barrier_init(&own.drained[set], 32);
    if (set == 0) barrier_init(&own.slots.filled, 1);
  }
  clear_ends(layout, shared);
  __syncthreads();
  if (!a.starts_next_late) let_next_kernel_start();

  if (threadIdx.x >= kGemvQConsumers<kTeams> + 32) {
    layout.tiles_ahead > 0 ? fetch<true>(a, layout, shared, own.slots, own.sequence)
                           : fetch<false>(a, layout, shared, own.slots, own.sequence);
    return;
  }
  const Sets sets = {reinterpret_cast<float*>(shared + layout.partials_at), own.sequence, own.ready,
                     own.drained};
  if (threadIdx.x >= kGemvQConsumers<kTeams>) {
    if (layout.tiles_ahead > 0) {
      barrier_wait(&own.slots.filled, 0);
      if (elect_lane()) prefetch_tiles(a, layout);
      __syncwarp();
    }
    wait_for_kernel_ahead();
    finish<F, T, kTeams>(a, layout, sets, own.squares);
    return;
  }
  const Activations activations = {layout.parts, shared + layout.activations_at, own.squares};
  const auto stage = [&] {
    a.norm_weight ? StageOne<F, T, true, kTeams>(a, activations).run()
                  : StageOne<F, T, false, kTeams>(a, activations).run();
    if (a.starts_next_late) let_next_kernel_start();
    // A warp of a single team multiplies what it has brought itself.
    kTeams == 1 ? __syncwarp() : named_barrier<1, kGemvQConsumers<kTeams>>();
  };
  consume<F, kTeams>(layout, shared, own.slots, sets, activations, stage);
}

}  // namespace skald::cuda
