#include "cuda/plan/kernel_table.h"

#include <algorithm>
#include <span>

#include "engine/base/error.h"
#include "engine/quant/dtype.h"

namespace skald::cuda {
namespace {

template <class Shape>
const StateKernel<Shape>* find_state(std::span<const StateKernel<Shape>> kernels,
                                     const Shape& shape, const StateNeed& need, const Gpu& gpu) {
  for (const StateKernel<Shape>& kernel : kernels) {
    if (!runs_on(kernel.code, gpu.compute_capability) || !kernel.supports(shape)) continue;
    if (kernel.decode && !need.decode) continue;
    if (kernel.chunks && (need.decode || need.few_each || need.reproducible)) continue;
    return &kernel;
  }
  return nullptr;
}

}  // namespace

const ProductKernel& select_product(const LinearShape& asked, const ProductNeed& need,
                                    const Gpu& gpu) {
  LinearShape shape = asked;
  if (need.pinned) shape.rows = kPinnedRows;
  for (const ProductKernel& kernel : kProductKernels) {
    if (need.pinned && !kernel.any_rows) continue;
    const int most =
        need.copy ? std::min(kernel.most_rows, kernel.most_rows_beside_copy) : kernel.most_rows;
    if (shape.rows < kernel.fewest_rows || shape.rows > most) continue;
    if (runs_on(kernel.code, gpu.compute_capability) && kernel.supports(shape)) return kernel;
  }
  fail(Exit::Failed, "no kernel for a product of ", name(shape.type), " with ", name(shape.format),
       " [", shape.outs, ", ", shape.ins, "], on sm_", gpu.compute_capability);
}

const DeltaKernel& select_state(const DeltaShape& shape, const StateNeed& need, const Gpu& gpu) {
  const DeltaKernel* kernel = find_state<DeltaShape>(kDeltaKernels, shape, need, gpu);
  if (kernel) return *kernel;
  fail(Exit::Failed, "no kernel for a delta net with heads of ", shape.spec.key_dim, " x ",
       shape.spec.value_dim);
}

const SpaceKernel& select_state(const SpaceShape& shape, const StateNeed& need, const Gpu& gpu) {
  const SpaceKernel* kernel = find_state<SpaceShape>(kSpaceKernels, shape, need, gpu);
  if (kernel) return *kernel;
  fail(Exit::Failed, "no kernel for a state space with heads of ", shape.spec.head_dim, " x ",
       shape.spec.state_dim);
}

const AttentionKernel& select_attention(AttentionCode code, const AttentionSpec& spec, bool decode,
                                        const std::optional<CacheTypes>& coded) {
  for (const AttentionKernel& kernel : kAttentionKernels) {
    if (code < kernel.least || !kernel.supports(spec)) continue;
    if (kernel.reads_codes && !(coded && kernel.reads_codes(*coded))) continue;
    if (kernel.decode == decode || kernel.any_step) return kernel;
  }
  fail(Exit::Failed, "no kernel for attention with heads of ", spec.head_dim, " dimensions");
}

const ExpertsKernel* find_experts(const ExpertsShape& shape, const RoutingShape& routing,
                                  const Gpu& gpu, const ExpertsNeed& need) {
  const bool wgmma = !need.in_place && runs_on(KernelCode::Sm90a, gpu.compute_capability) &&
                     supports_experts_many_sm90(shape, routing);
  for (const ExpertsKernel& kernel : kExpertsKernels) {
    if (!runs_on(kernel.code, gpu.compute_capability) || !kernel.supports(shape, routing)) continue;
    if (!kernel.any_rows && need.reproducible) continue;
    if (!kernel.in_place && need.in_place) continue;
    const int places =
        wgmma && kernel.most_places_sm90a ? kernel.most_places_sm90a : kernel.most_places;
    const bool bounded = kernel.most_rows > 0 || kernel.most_places > 0;
    if (!bounded || routing.rows <= kernel.most_rows ||
        routing.choices() <= places * int64_t{routing.count}) {
      return &kernel;
    }
  }
  return nullptr;
}

const ExpertsKernel& select_experts(const ExpertsShape& shape, const RoutingShape& routing,
                                    const Gpu& gpu, const ExpertsNeed& need) {
  const ExpertsKernel* kernel = find_experts(shape, routing, gpu, need);
  if (kernel) return *kernel;
  fail(Exit::Failed, "no kernel for experts of ", name(shape.format), " on sm_",
       gpu.compute_capability);
}

}  // namespace skald::cuda
