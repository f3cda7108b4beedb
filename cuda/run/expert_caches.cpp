#include "cuda/run/expert_caches.h"

#include <algorithm>

#include "cuda/gpu/check.h"

namespace skald::cuda {

ExpertCaches::ExpertCaches(const FusedProgram& fused, const Placement& placement,
                           const LoadedModel& loaded, Stream stream)
    : fused_(fused),
      placement_(placement),
      loaded_(loaded),
      stream_(stream),
      memory_(placement.caches, "cache of experts"),
      state_at_(placement.ops.size()),
      counts_(placement.caches > 0 ? int64_t{sizeof(CacheCounts)} : 0, "cache of experts") {
  if (placement.caches == 0) return;
  int64_t numbers = 0;
  for (size_t op : placement.streamed) {
    if (!is_experts(op)) continue;
    state_at_[op] = numbers;
    numbers += state_numbers(op);
  }
  states_begin_ = placement.caches - numbers * 4;
  states_.resize(static_cast<size_t>(numbers));
  for (size_t op : placement.streamed) {
    if (!is_experts(op)) continue;
    const int slots = placement.ops[op].cached;
    for (const CachedStack& stack : stacks_of(op)) {
      if (slots == 0) break;
      SKALD_CUDA(cudaMemcpyAsync(stack.cache, stack.host, static_cast<size_t>(slots * stack.stride),
                                 cudaMemcpyHostToDevice, stream));
    }
    int32_t* const slot_of = states_.data() + state_at_[op];
    for (int e = 0; e < experts(op); ++e) slot_of[e] = e < slots ? e : -1;
    for (int s = 0; s < slots; ++s) slot_of[experts(op) + s] = s;
  }
  SKALD_CUDA(cudaMemsetAsync(counts_.as<void>(), 0, sizeof(CacheCounts), stream));
  SKALD_CUDA(cudaMemcpyAsync(memory_.as<std::byte>() + states_begin_, states_.data(),
                             states_.size() * 4, cudaMemcpyHostToDevice, stream));
  SKALD_CUDA(cudaStreamSynchronize(stream));
}

void ExpertCaches::learn() {
  SKALD_CUDA(cudaMemcpyAsync(states_.data(), memory_.as<std::byte>() + states_begin_,
                             states_.size() * 4, cudaMemcpyDeviceToHost, stream_));
  SKALD_CUDA(cudaStreamSynchronize(stream_));
  states_known_ = true;
}

CacheState ExpertCaches::state(size_t op) const {
  const int slots = placement_.ops[op].cached;
  auto* const first = reinterpret_cast<int32_t*>(memory_.as<std::byte>() + states_begin_);
  int32_t* const slot_of = first + state_at_[op];
  int32_t* const expert_of = slot_of + experts(op);
  auto* const used_at = reinterpret_cast<uint32_t*>(expert_of + slots);
  return {slot_of, expert_of, used_at, used_at + slots, counts_.as<CacheCounts>(), slots};
}

std::vector<CachedStack> ExpertCaches::stacks_of(size_t op) const {
  const OpPlace& place = placement_.ops[op];
  std::vector<CachedStack> stacks;
  std::byte* cache = memory_.as<std::byte>() + place.cache;
  for (const LoadedStack& stack : loaded_.ops()[op].stacks) {
    auto* const all = static_cast<std::byte*>(const_cast<void*>(stack.first));
    const auto* host = static_cast<const std::byte*>(loaded_.in_place(op, stack.first));
    stacks.push_back({host, cache, all, stack.stride});
    cache += place.cached * stack.stride;
  }
  return stacks;
}

MoveExpertsLaunch ExpertCaches::moves(size_t op) const {
  MoveExpertsLaunch launch = {};
  const std::vector<CachedStack> stacks = stacks_of(op);
  std::copy(stacks.begin(), stacks.end(), launch.stacks);
  launch.count = static_cast<int>(stacks.size());
  launch.slot_of = state(op).slot_of;
  launch.experts = experts(op);
  return launch;
}

void ExpertCaches::copy_missing(size_t op, Stream stream) const {
  const int32_t* const slot_of = states_.data() + state_at_[op];
  for (const CachedStack& stack : stacks_of(op)) {
    for (int first = 0, end; first < experts(op); first = end) {
      end = first + 1;
      if (slot_of[first] >= 0) continue;
      while (end < experts(op) && slot_of[end] < 0) ++end;
      SKALD_CUDA(cudaMemcpyAsync(
          stack.all + first * stack.stride, stack.host + first * stack.stride,
          static_cast<size_t>((end - first) * stack.stride), cudaMemcpyHostToDevice, stream));
    }
  }
}

void ExpertCaches::copy_cached(size_t op, int multiprocessors) const {
  MoveExpertsLaunch launch = moves(op);
  launch.blocks = multiprocessors;
  launch_move_experts(launch, stream_);
}

ExpertUse ExpertCaches::use() const {
  if (counts_.bytes() == 0) return {};
  CacheCounts counts;
  SKALD_CUDA(cudaStreamSynchronize(stream_));
  SKALD_CUDA(cudaMemcpy(&counts, counts_.as<void>(), sizeof(counts), cudaMemcpyDeviceToHost));
  const auto number = [](unsigned long long count) { return static_cast<int64_t>(count); };
  return {number(counts.found), number(counts.copied), number(counts.others)};
}

}  // namespace skald::cuda
