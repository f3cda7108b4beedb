// A block of gemv_q_sm90: its warps and the data that they exchange. gemv_q_sm90.cu describes the
// whole kernel. gemv_q_pair_sm90.cu has two kinds of such blocks in one grid.
#pragma once

#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/gemv_q/by16_product.cuh"
#include "cuda/kernels/gemv_q/digit_product.cuh"
#include "cuda/kernels/gemv_q/float_product.cuh"
#include "cuda/kernels/gemv_q/stage_one.cuh"
#include "cuda/kernels/gemv_q/tile_ring.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kGemvQConsumers = kWarps * 32, kGemvQStagers = kWarps * 32;
inline constexpr int kGemvQThreads = kGemvQConsumers + kGemvQStagers + 2 * 32;
// A multiprocessor has registers for two blocks: this kernel's and the next one's, or one of them
// and one of attention. Three warps of 96 registers and one of attention's with 224 fill a
// scheduler.
inline constexpr int kGemvQBlocks = 2;

template <class F>
using RowProductOf = std::conditional_t<F::kFloats, FloatRow<F>,
                                        std::conditional_t<kBy16<F>, By16Row<F>, OneRow<F>>>;

// The ring of sets of partial sums, from consumers to the finisher.
struct Sets {
  float* partials;  // [layout.sets, warp, kPartials]
  int* sequence;    // [kGroupsAhead] group numbers from the producer
  uint64_t *ready, *drained;
  uint64_t* known;  // chosen experts only: passed when the producer has found their matrices
};

// The bias of a weight row of chosen experts, and where its result goes. The choice is complete.
__device__ inline void begin_of_experts(const LinearLaunch& a, const Layout& layout,
                                        const ChosenMatrix* experts, int group, int64_t weight,
                                        int64_t& out, float& bias) {
  if (!a.experts.beside) {
    const int slot = group / layout.expert_groups;
    const int64_t own_outs = int64_t{layout.expert_groups} * tiles::kRows;
    const int64_t row = weight - slot * own_outs;
    out = slot * (a.epilogue == Epilogue::Gated ? 2 * a.out_stride : a.out_stride) + row;
    if (a.bias) bias = __ldg(a.bias + experts[slot].expert * own_outs + row);
  } else if (a.bias) {
    for (int slot = 0; slot < a.experts.used; ++slot) {
      const float own = __ldg(a.bias + experts[slot].expert * a.outs + weight);
      bias = fmaf(__ldcg(a.chosen.weights + slot), own, bias);
    }
  }
}

// The finisher warp adds up the partial sums of the consumers and writes results. A lane has the
// result of weight row lane % 16; lanes 0 to 15 write.
template <class F, class T, bool kExperts>
__device__ void finish(const LinearLaunch& a, const Layout& layout, const Sets& sets,
                       const float* squares, const ChosenMatrix* experts) {
  const int lane = static_cast<int>(threadIdx.x) % 32, weight_row = lane % tiles::kRows;
  const bool gated = a.epilogue == Epilogue::Gated, added = a.epilogue == Epilogue::AddTo;
  const bool knows_biases = !kExperts || !a.bias;
  float norm = 1;
  Turn turn;
  for (int i = 0;; ++i) {
    float bias = 0, old = 0;
    int64_t weight = 0, out = 0;  // `out`: where the result goes
    bool inside = false;
    const auto begin = [&](int group) {
      weight = out = int64_t{group} * tiles::kRows + weight_row;
      inside = weight < a.outs;
      if (!inside) return;
      if constexpr (kExperts) {
        begin_of_experts(a, layout, experts, group, weight, out, bias);
      } else if (a.bias) {
        bias = __ldg(a.bias + weight);
      }
      if (added) old = __ldcg(static_cast<const float*>(a.out) + weight);
    };
    // The block's own groups are known before their sums arrive, but not the experts' biases.
    const int own = knows_biases ? TileGroups::own(layout, i) : kNoMore;
    if (own != kNoMore) begin(own);
    barrier_wait(&sets.ready[turn.slot], turn.lap & 1);
    if (own == kNoMore) {
      const int group = sets.sequence[i % kGroupsAhead];
      if (group == kNoMore) return;
      // The producer found the experts before these sums began. The wait makes its writes visible.
      if (!knows_biases && i == 0) barrier_wait(sets.known, 0);
      begin(group);
    }
    const float* set = sets.partials + turn.slot * layout.set_floats + weight_row * 4;
    float both[2] = {};
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      const auto& row = *reinterpret_cast<const float4*>(set + warp * kPartials);
      both[warp % 2] += RowProductOf<F>::added_up(row);
    }
    // The squares are complete when the first sums arrive.
    if (i == 0 && a.norm_weight) {
      float all = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) all += squares[warp];
      norm = rsqrtf(fmaf(all, layout.column_share, a.norm_eps));
    }
    barrier_arrive(&sets.drained[turn.slot]);
    turn.next(layout.sets);
    const float sum = fmaf(both[0] + both[1], norm, bias);
    const float up = gated ? __shfl_down_sync(~0u, sum, 1) : 0;
    if (lane >= tiles::kRows || !inside) continue;
    if (gated) {
      if (lane % 2 == 0) {
        const bool clamped = kExperts && a.activation == Activation::ClampedSwiglu;
        const float result =
            clamped ? cuda::gated(sum, up, a.activation) : activate_briefly(sum, a.activation) * up;
        static_cast<T*>(a.out)[out / 2] = from_float<T>(result);
      }
    } else if (a.epilogue == Epilogue::Store) {
      static_cast<T*>(a.out)[out] =
          from_float<T>(a.activates ? activate_briefly(sum, a.activation) : sum);
    } else {
      static_cast<float*>(a.out)[weight] = added ? fmaf(a.scale, sum, old) : a.scale * sum;
    }
  }
}

// A block's static shared memory. Layout divides the dynamic part.
struct GemvQShared {
  Slots slots;
  uint64_t ready[kMostSets], drained[kMostSets];
  uint64_t staged[kMostTurns];
  int sequence[kGroupsAhead];
  float squares[kWarps];
};
// The same with what chosen experts need.
struct GemvQExpertsShared : GemvQShared {
  uint64_t known;
  ChosenMatrix experts[kMostChosen];
  RouterSums router;
};
static_assert(sizeof(GemvQExpertsShared) - sizeof(GemvQShared) <= kExpertsOwnBytes);
template <bool kExperts>
using GemvQSharedOf = std::conditional_t<kExperts, GemvQExpertsShared, GemvQShared>;

// A consumer warp multiplies its share of each of the block's tiles. The weights of the next part
// are in registers before the warp multiplies the current part. The compiler must see that all
// lanes take the same branches. Otherwise it makes them converge again and again, which took a
// quarter of a tile's time. So loop counts over tiles come from the launch, and all other
// conditions are votes.
template <class F>
__device__ void consume(const Layout& layout, const char* ring, const GemvQShared& own,
                        float* partials, const Activations& activations) {
  using Product = RowProductOf<F>;
  using Weights = typename Product::Weights;
  constexpr int kParts = kWarpParts<F>;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const char* held_own = held_pointer(&own);  // one register for all of its members
  const auto barrier = [&](size_t member, int i) {
    return shared_address(held_own + member + i * sizeof(uint64_t));
  };
  constexpr size_t kFull = offsetof(GemvQShared, slots.full);
  constexpr size_t kEmpty = offsetof(GemvQShared, slots.empty);
  constexpr size_t kEnd = offsetof(GemvQShared, slots.end);
  constexpr size_t kStaged = offsetof(GemvQShared, staged);
  constexpr size_t kReady = offsetof(GemvQShared, ready), kDrained = offsetof(GemvQShared, drained);
  Product product(activations, warp * kParts);
  Turn turn, next_turn;
  // Like a Turn, but in one register: the slot, and kAfterOdd if the lap before was odd.
  constexpr unsigned kAfterOdd = 256;
  unsigned set = kAfterOdd;
  const char *first_slot = held_pointer(ring), *slot = first_slot;
  int at = 0, next_at = 0;  // offset of a tile's digits: Product::kStep per tile
  const auto staged_barrier = [&](int of) {
    constexpr unsigned kTurnBytes = kStageParts * kStagedBytes<F>;
    return barrier(kStaged, static_cast<int>(static_cast<unsigned>(of) / kTurnBytes));
  };
  // The barrier at which the finisher arrives when it has drained this group's set. It counts as
  // passed in the first lap: the phase before a barrier's first one is over.
  const auto drained_barrier = [&] { return barrier(kDrained, static_cast<int>(set % kAfterOdd)); };
  // The answer of barrier_passed() takes a fifth of the time of a part, so the warp polls one part
  // ahead.
  uint32_t there = 0;
  const auto ask_for_next = [&] {
    next_turn = turn;
    next_turn.next(layout.slots);
    next_at = at + Product::kStep;
    if (next_at == layout.row_bytes) next_at = 0;
    there = barrier_passed(barrier(kFull, next_turn.slot), next_turn.lap & 1) &
            barrier_passed(staged_barrier(next_at), 0);
    if (Product::kAsksForSet) there &= barrier_passed(drained_barrier(), set / kAfterOdd);
  };
  const auto enter = [&] {
    if (!__all_sync(~0u, there)) {
      barrier_wait(barrier(kFull, turn.slot), turn.lap & 1);
      barrier_wait(staged_barrier(at), 0);
      if (Product::kAsksForSet) barrier_wait(drained_barrier(), set / kAfterOdd);
    }
    product.begin(at);
    slot = first_slot + turn.slot * layout.slot_bytes;
  };
  const auto release = [&] {
    __syncwarp();
    if (lane == 0) barrier_arrive(barrier(kEmpty, turn.slot));
    turn = next_turn;
    at = next_at;
  };
  const auto end_group = [&] {
    const auto of = static_cast<int>(set % kAfterOdd);
    if (!Product::kAsksForSet) barrier_wait(drained_barrier(), set / kAfterOdd);
    product.store_partials(partials + of * layout.set_floats + warp * kPartials);
    barrier_arrive(barrier(kReady, of));
    set = of + 1 == layout.sets ? (set ^ kAfterOdd) & kAfterOdd : set + 1;
  };
  Weights two[2];
  typename Product::Inputs inputs[2];
  // Multiplies the i-th part of a tile while the next part is on its way.
  const auto multiply = [&](int i) {
    Weights &now = two[i % 2], &next = two[(i + 1) % 2];
    if (!Product::kLoadsAhead) product.load(inputs[i % 2], i);
    if (i + 1 < kParts) {
      if (Product::kLoadsAhead) product.load(inputs[(i + 1) % 2], i + 1);
      product.load(next, slot, i + 1);
      if (i + 2 == kParts) ask_for_next();
    } else {
      release();
      enter();
      if (Product::kLoadsAhead) product.load(inputs[0], 0);
      product.load(next, slot, 0);
    }
    product.multiply(now, inputs[i % 2], i);
  };

  barrier_wait(barrier(kFull, 0), 0);
  product.load(two[0], slot, 0);
  barrier_wait(staged_barrier(0), 0);
  product.begin(0);
  if (Product::kLoadsAhead) product.load(inputs[0], 0);
  const auto ended = [&] { return load4(held_own + kEnd + turn.slot * sizeof(int64_t)); };
  for (uint32_t no_more = ended(); !__any_sync(~0u, no_more != 0);) {
    int left = layout.tiles;
#pragma unroll 1
    do {
#pragma unroll
      for (int i = 0; i < kParts; ++i) multiply(i);
    } while (--left > 0);
    no_more = ended();
    end_group();
  }
  if (Product::kAsksForSet) barrier_wait(drained_barrier(), set / kAfterOdd);
  end_group();  // tells the finisher that there are no more groups
}

// kExperts: the matrix may be put together from chosen experts' (ChosenShape).
template <class F, class T, bool kExperts = false>
__device__ __forceinline__ void run_gemv_q(const LinearLaunch& a, const Layout& layout,
                                           char* shared, GemvQSharedOf<kExperts>& own) {
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
    if constexpr (kExperts) {
      if (i == 0) barrier_init(&own.known, 32);
    }
  });
  clear_ends(layout, shared);
  __syncthreads();
  // Block 0 writes the choice of experts, which the next kernel may read ahead of its wait.
  const bool writes_choice = kExperts && a.router.weight && blockIdx.x == 0;
  if (!a.gemv_q.next_starts_late && !writes_choice) let_next_kernel_start();

  constexpr unsigned kFirstFinisher = kGemvQConsumers + kGemvQStagers;
  if (threadIdx.x >= kFirstFinisher + 32) {
    const uint32_t staged = shared_address(&own.staged[0]);
    const ChosenMatrix* experts = nullptr;
    if constexpr (kExperts) {
      find_experts(a, own.experts);
      barrier_arrive(&own.known);
      experts = own.experts;
    }
    if (elect_lane()) {
      fetch<kExperts>(a, layout, shared, own.slots, own.sequence, staged, experts);
    }
    return;
  }
  Sets sets = {reinterpret_cast<float*>(shared + layout.partials_at), own.sequence, own.ready,
               own.drained, nullptr};
  if (threadIdx.x >= kFirstFinisher) {
    wait_for_kernel_ahead();
    const ChosenMatrix* experts = nullptr;
    if constexpr (kExperts) {
      experts = own.experts;
      sets.known = &own.known;
      if (writes_choice) {
        receive_choice(a.router, false, [&](const auto& choice) {
          choice.store(a.router.spec, a.router.chosen, a.router.weights);
        });
        if (a.chosen.shared) store_shared_weight(a.router);
        __threadfence();
        __syncwarp();
        let_next_kernel_start();
      } else if (blockIdx.x == 0 && a.router.logits && !a.router.weight) {
        clear_logits(a.router);
      }
    }
    finish<F, T, kExperts>(a, layout, sets, own.squares, experts);
    return;
  }
  const Activations activations = {layout.turns, shared + layout.activations_at, own.squares};
  if (threadIdx.x >= kGemvQConsumers) {
    if constexpr (kExperts) {
      if (a.router.weight) send_logits(a, own.router);
    }
    const auto staged = [&](int turn) {
      if (a.gemv_q.next_starts_late) let_next_kernel_start();
      barrier_arrive(&own.staged[turn]);
    };
    a.norm_weight ? StageOne<F, T, true, kExperts>(a, layout, activations).run(staged)
                  : StageOne<F, T, false, kExperts>(a, layout, activations).run(staged);
    return;
  }
  consume<F>(layout, shared, own, sets.partials, activations);
}

// Launches a kernel of such blocks on one matrix.
template <class Kernel>
void launch_blocks(Kernel kernel, const LinearLaunch& a, const Layout& layout, Stream stream) {
  const int most = kMostBlockBytes - (a.experts.used ? kExpertsOwnBytes : 0);
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  ask_for_all_shared(kernel);
  const auto bytes = static_cast<size_t>(layout.bytes);
  launch_kernel(kernel, {dim3(layout.blocks), kGemvQThreads, bytes, a.dependent}, stream, a,
                layout);
}

}  // namespace skald::cuda
