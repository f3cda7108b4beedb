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

inline constexpr int kGemvQConsumers = kWarps * 32, kGemvQStagers = kWarps * 32;
inline constexpr int kGemvQThreads = kGemvQConsumers + kGemvQStagers + 2 * 32;
// A multiprocessor has registers for two blocks, this kernel's and the next one's, or for one of
// attention beside one of these: three of their warps on a scheduler, of 96 registers, and one of
// attention's with 224 are all that it has.
inline constexpr int kGemvQBlocks = 2;

// What passes between consumers and finisher: a ring of sets of partial sums.
struct Sets {
  float* partials;  // [layout.sets, warp, kPartials]
  int* sequence;    // [kGroupsAhead], from the producer
  uint64_t *ready, *drained;
};

// Adds up the warps' shares and writes results out. For one warp: a lane has the results of weight
// row lane % 16, and writes if it is one of the lower.
template <class F, class T>
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
      for (int warp = 0; warp < kWarps; ++warp) {
        const auto& row = *reinterpret_cast<const float4*>(set + warp * kPartials);
        both[warp % 2] += OneRow<F>::added_up(row);
      }
      // The squares are there when the first sums are.
      if (i == 0 && a.norm_weight) {
        float all = 0;
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) all += squares[warp];
        norm = rsqrtf(fmaf(all, layout.column_share, a.norm_eps));
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

// The tiles of a block, by one of the warps that multiply. What is to be multiplied next is in
// registers before a warp multiplies what it has. Where it goes on is the same for all lanes, and
// asked by votes: from these the compiler knows it, and needs no barriers at which lanes meet
// again, which took a quarter of a tile's time. One vote a tile asks for all that is rare: sums to
// leave, activations to wait for, the end. With two the compiler puts a YIELD between them, which
// took up to a tenth of a tile's time. wait_for(turn) returns when that turn of the activations is
// there; only tiles of a block's first group ask for one.
template <class F, class WaitFor>
__device__ void consume(const Layout& layout, const char* ring, const Slots& slots,
                        const Sets& sets, const Activations& activations, const WaitFor& wait_for) {
  using Product = OneRow<F>;
  using Weights = typename Product::Weights;
  constexpr int kParts = kWarpParts<F>;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const char* held_slots = held_pointer(&slots);
  const uint32_t drained = held_address(sets.drained), ready = held_address(sets.ready);
  Product product(activations, warp * kParts);
  Turn turn, next_turn, set;
  const char *first_slot = held_pointer(ring), *slot = first_slot;
  int tile = 0, end = layout.chunk_tiles;  // of the group, and of its tiles that are added up
  int left_sets = 0, word = 0;
  // An answer takes as long as a fifth of a part, so it is asked for a part ahead of its use.
  uint32_t there = 0, drained_before = 0;
  const auto ask_for_next = [&] {
    next_turn = turn;
    next_turn.next(layout.slots);
    there = barrier_passed(shared_address(held_slots + next_turn.slot * 8), next_turn.lap & 1);
    drained_before = barrier_passed(drained + set.slot * 8, (set.lap - 1) & 1);
  };
  const auto enter = [&] {
    const char* at = held_slots + turn.slot * 8;
    barrier_wait_unless(there, shared_address(at), turn.lap & 1);
    slot = first_slot + turn.slot * layout.slot_bytes;
    // By the lane that says in the end that the slot may be written again; a vote tells the others.
    if (lane == 0) word = static_cast<int>(load4(at + offsetof(Slots, word)));
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
    product.leave(sets.partials + set.slot * layout.set_floats + warp * kPartials);
    barrier_arrive(ready + set.slot * 8);
    set.next(layout.sets);
    ++left_sets;
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

  enter();
  Weights two[2];
  load(two[0], 0);
  for (;; ++tile) {
    if (__any_sync(~0u, tile >= end || word)) {
      if (tile >= end) {
        leave();
        if (end == layout.tiles) tile = end = 0;
        end = min(end + layout.chunk_tiles, layout.tiles);
      }
      word = __shfl_sync(~0u, word, 0);
      if (word > 0) break;
      if (word < 0) {
        wait_for(-1 - word);
        product.staged();
        word = 0;
      }
    }
#pragma unroll
    for (int i = 0; i < kParts; ++i) multiply(i, two[i % 2], two[(i + 1) % 2]);
  }
  while (left_sets < word) leave();
}

// What a block has in shared memory beside what its layout divides.
struct GemvQShared {
  Slots slots;
  uint64_t ready[kMostSets], drained[kMostSets];
  uint64_t staged[kMostTurns];
  int sequence[kGroupsAhead];
  float squares[kWarps];
};

template <class F, class T>
__device__ __forceinline__ void run_gemv_q(const LinearLaunch& a, const Layout& layout,
                                           char* shared, GemvQShared& own) {
  init_barriers(max(max(layout.slots, layout.sets), layout.turns), [&](int i) {
    if (i < layout.slots) {
      barrier_init(&own.slots.full[i], 1);
      barrier_init(&own.slots.empty[i], kWarps);
    }
    if (i < layout.sets) {
      barrier_init(&own.ready[i], kGemvQConsumers);
      barrier_init(&own.drained[i], 32);
    }
    if (i < layout.turns) barrier_init(&own.staged[i], kGemvQStagers);
  });
  clear_ends(layout, shared);
  __syncthreads();
  if (!a.starts_next_late) let_next_kernel_start();

  constexpr unsigned kFirstFinisher = kGemvQConsumers + kGemvQStagers;
  if (threadIdx.x >= kFirstFinisher + 32) {
    const uint32_t staged = shared_address(&own.staged[0]);
    if (elect_lane()) fetch(a, layout, shared, own.slots, own.sequence, staged);
    return;
  }
  const Sets sets = {reinterpret_cast<float*>(shared + layout.partials_at), own.sequence, own.ready,
                     own.drained};
  if (threadIdx.x >= kFirstFinisher) {
    wait_for_kernel_ahead();
    finish<F, T>(a, layout, sets, own.squares);
    return;
  }
  const Activations activations = {layout.turns, shared + layout.activations_at, own.squares};
  if (threadIdx.x >= kGemvQConsumers) {
    const auto tell = [&](int turn) {
      if (a.starts_next_late) let_next_kernel_start();
      barrier_arrive(&own.staged[turn]);
    };
    a.norm_weight ? StageOne<F, T, true>(a, activations).run(tell)
                  : StageOne<F, T, false>(a, activations).run(tell);
    return;
  }
  consume<F>(layout, shared, own.slots, sets, activations,
             [&](int turn) { barrier_wait(&own.staged[turn], 0); });
}

}  // namespace skald::cuda
