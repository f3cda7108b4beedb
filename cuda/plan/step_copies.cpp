// Plans what happens with streamed weights: the CPU computes with them, experts are read in place,
// or they are copied.
#include <algorithm>
#include <cmath>

#include "cuda/plan/experts_shape.h"
#include "cuda/plan/step_planner.h"

namespace skald::cuda {
namespace {

double chosen_share(const RoutingShape& routing) {
  return 1 - std::pow(1 - static_cast<double>(routing.used) / routing.count, routing.rows);
}

}  // namespace

// These kernels read the weights of each chosen expert about once.
bool StepPlanner::reads_in_place(size_t op) const {
  const auto* found = std::get_if<FusedExperts>(&fused_.ops[op].op);
  if (!found || setting_.placement.home(op) != Home::Streamed) return false;
  if (setting_.placement.kind == HostMemoryKind::Pageable) return false;
  const FusedExperts& experts = *found;
  const RoutingShape routing = {kind_.rows, experts.spec.used, experts.spec.count};
  if (chosen_share(routing) > kMostReadInPlace) return false;
  const std::vector<ExpertStack> stacks = fused_.stacks(experts);
  return std::all_of(stacks.begin(), stacks.end(), [&](const ExpertStack& stack) {
    const ExpertsShape shape = experts_shape(fused_, experts, stack);
    const ExpertsNeed need = {.reproducible = setting_.reproducible, .in_place = true};
    return find_experts(shape, routing, setting_.gpu, need) != nullptr;
  });
}

// Where kernels do not read experts in their slots, the CPU computes all of a layer's experts.
HostPart StepPlanner::host_part() const {
  if (kind_.head || kind_.rows > kMostSharedRows) return {};
  HostPart part = cuda::host_part(fused_, setting_.placement, setting_.host);
  const auto whole = std::stable_partition(part.shared.begin(), part.shared.end(),
                                           [&](size_t op) { return reads_in_place(op); });
  part.ops.insert(part.ops.end(), whole, part.shared.end());
  part.shared.erase(whole, part.shared.end());
  if (kind_.rows > kMostHostRows) part.ops.clear();
  std::sort(part.ops.begin(), part.ops.end());
  return part;
}

std::vector<CopyTime> StepPlanner::plan_copies() const {
  std::vector<size_t> ops;
  if (kind_.head) return {};
  for (size_t op : setting_.placement.streamed) {
    if (!is_on_host(op) && !reads_in_place(op)) ops.push_back(op);
  }
  return copy_times(setting_.placement, ops);
}

bool StepPlanner::is_on_host(size_t op) const {
  return std::binary_search(host_.ops.begin(), host_.ops.end(), op);
}

bool StepPlanner::is_shared(size_t op) const {
  return std::binary_search(host_.shared.begin(), host_.shared.end(), op);
}

bool StepPlanner::is_copied(size_t op) const {
  return std::any_of(copies_.begin(), copies_.end(),
                     [op](const CopyTime& copy) { return copy.op == op; });
}

}  // namespace skald::cuda
