// The caches of experts of an executor (cuda/plan/place.h, cuda/kernels/experts/experts_cache.h).
// At first a cache has the experts with the lowest numbers. Steps of few rows change it, and only
// the GPU knows how. Steps of many rows need all experts of a layer: copies bring those that the
// cache does not have, so the host then asks the GPU which ones these are.
#pragma once

#include <vector>

#include "cuda/gpu/memory.h"
#include "cuda/kernels/experts/experts_cache.h"
#include "cuda/load/loaded_model.h"
#include "engine/step/backend.h"

namespace skald::cuda {

class ExpertCaches {
 public:
  // Borrows all; makes nothing if no experts have a cache.
  ExpertCaches(const FusedProgram& fused, const Placement& placement, const LoadedModel& loaded,
               Stream stream);

  // True if a layer's cache has slots. Without any, it still says which chosen experts are read on
  // the host and which the CPU computes.
  bool has(size_t op) const { return placement_.ops[op].cached > 0; }
  CacheState state(size_t op) const;
  // The first slot of a stack of experts, or other memory of that size if there is none.
  const void* slots(size_t op, size_t stack) const {
    const CachedStack found = stacks_of(op)[stack];
    return has(op) ? found.cache : found.all;
  }
  // Fills all fields but `moves` and `blocks`.
  MoveExpertsLaunch moves(size_t op) const;
  ExpertUse use() const;  // waits for the GPU

  // A step that is enqueued now may change the caches.
  void will_change() { states_known_ = states_.empty(); }
  bool known() const { return states_known_; }
  void learn();  // which experts the caches have; waits for the GPU
  // Enqueues the copies of the experts that the cache does not have, to where all lie together. The
  // cache must be known.
  void copy_missing(size_t op, Stream stream) const;
  // Enqueues the copies of those that it has.
  void copy_cached(size_t op, int multiprocessors) const;

 private:
  std::vector<CachedStack> stacks_of(size_t op) const;
  bool is_experts(size_t op) const {
    return std::holds_alternative<FusedExperts>(fused_.ops[op].op);
  }
  int experts(size_t op) const { return std::get<FusedExperts>(fused_.ops[op].op).spec.count; }
  int64_t state_numbers(size_t op) const {
    return padded(cache_state_size(experts(op), placement_.ops[op].cached) * 4) / 4;
  }

  const FusedProgram& fused_;
  const Placement& placement_;
  const LoadedModel& loaded_;
  Stream stream_;
  DeviceMemory memory_;
  std::vector<int64_t> state_at_;  // of each op, in numbers of 4 bytes from the first state on
  int64_t states_begin_ = 0;       // bytes
  std::vector<int32_t> states_;    // as on the GPU, if states_known_
  DeviceMemory counts_;
  bool states_known_ = true;
};

}  // namespace skald::cuda
