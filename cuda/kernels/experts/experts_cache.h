// A layer's experts of which the host's memory has all and the GPU's memory some, in a cache of
// slots (cuda/plan/place.h). The GPU alone manages the cache: before the products of a step,
// choose_slots gives slots to chosen experts that have none, from the experts that were used
// longest ago, and move_experts copies those experts over the link. So a captured graph of these
// launches stays valid.
//
// The CPU may compute a part of the chosen experts that have no slot, while others are copied. It
// then finds the rows, the choice and the weights in page-locked memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/gpu/stream.h"
#include "cuda/kernels/experts/experts.h"
#include "cuda/kernels/host_rows/host_rows.h"

namespace skald::cuda {

// How often the experts that steps chose had a slot. Each expert counts once a step and layer.
struct CacheCounts {
  unsigned long long found = 0, copied = 0, others = 0;
};

// The state of a layer's cache, in the GPU's memory. Each slot has an expert.
struct CacheState {
  int32_t* slot_of;    // [experts]: the expert's slot, or -1
  int32_t* expert_of;  // [slots]
  uint32_t* used_at;   // [slots]: the last step that chose the slot's expert
  uint32_t* step;      // one number: the last step
  CacheCounts* counts;
  int slots;
};
// The numbers of 4 bytes in `slot_of` and what follows it.
constexpr int64_t cache_state_size(int64_t experts, int64_t slots) {
  return experts + 2 * slots + 1;
}

struct ChooseSlotsLaunch {
  CacheState cache;
  Routing routing;
  // [experts]: where the step's products find each chosen expert; -1: on the host; some slot for
  // those that the CPU computes.
  int32_t* slots;
  // [2 + 2 * experts]: whether the CPU has experts to compute, how many experts are copied, then
  // the expert and the slot of each.
  int32_t* moves;
  // The CPU computes chosen experts without a slot (`rows` is not null). copied_experts() of them
  // are left to the GPU: they get slots, or kernels read them on the host. The CPU's choices get
  // weight 0 on the GPU, where their products have the numbers of some other expert.
  float copied = 1;
  struct ForCpu {
    const void* rows = nullptr;  // the experts' input; a multiple of 16 bytes
    int64_t bytes = 0;
    void* to = nullptr;         // page-locked, as the following
    int32_t* chosen = nullptr;  // [rows, used]: the expert, or -1: the GPU computes it
    float* weights = nullptr;   // [rows, used]
    CpuTurn turn = {};          // the request is sent
  } cpu;
};
// Returns how many of the missing experts are copied, rounded up: a copy of a single expert takes
// less time than the CPU's computation.
SKALD_HD inline int copied_experts(int missing, float share) {
  const float exact = share * static_cast<float>(missing);
  const int whole = static_cast<int>(exact);
  return exact - static_cast<float>(whole) > 0.001f ? whole + 1 : whole;
}
void launch_choose_slots(const ChooseSlotsLaunch& launch, Stream stream);

// The addresses of a stack of experts. All pointers are multiples of 16 bytes.
struct CachedStack {
  const std::byte* host;  // expert 0
  std::byte* cache;       // slot 0
  std::byte* all;         // expert 0, where the experts lie together in steps of many rows
  int64_t stride;         // bytes, in all three
};
struct MoveExpertsLaunch {
  static constexpr int kMostStacks = 3;
  CachedStack stacks[kMostStacks];
  int count;  // of stacks
  // From the host to the cache, as choose_slots leaves them; nullptr: from the cache to `all`, the
  // experts that the cache has.
  const int32_t* moves;
  const int32_t* slot_of = nullptr;
  int experts = 0;
  int blocks = 0;  // of the grid
};
void launch_move_experts(const MoveExpertsLaunch& launch, Stream stream);

}  // namespace skald::cuda
