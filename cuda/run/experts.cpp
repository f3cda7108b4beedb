#include "cuda/run/experts.h"

#include "cuda/gpu/check.h"
#include "cuda/kernels/pointwise/pointwise.h"
#include "engine/base/error.h"

namespace skald::cuda {

void launch_experts(const ExpertsLaunch& launch, ExpertsKernel kernel, Stream stream) {
  switch (kernel) {
    case ExpertsKernel::Few:
      return launch_experts_few(launch, stream);
    case ExpertsKernel::ManySm90:
      return launch_experts_many_sm90(launch, stream);
    case ExpertsKernel::Many:
      return launch_experts_many(launch, stream);
    case ExpertsKernel::Plain:
      return launch_experts_plain(launch, stream);
  }
}

RoutedExperts::RoutedExperts(const Products::Setting& setting, Stream stream)
    : s_(setting),
      stream_(stream),
      logits_(s_.sizes.experts.logits, "experts' choices"),
      chosen_(s_.sizes.experts.choices, "experts' choices"),
      weights_(s_.sizes.experts.choices, "experts' choices"),
      places_(s_.sizes.experts.choices, "experts' choices"),
      row_of_(s_.sizes.experts.choices, "experts' choices"),
      begins_(s_.sizes.experts.begins, "experts' choices"),
      tickets_(s_.sizes.experts.tickets, "experts' choices"),
      gated_(s_.sizes.experts.gated, "activations"),
      pairs_(s_.sizes.experts.pairs, "activations"),
      sums_(s_.sizes.experts.sums, "activations") {
  if (tickets_.bytes() == 0) return;
  SKALD_CUDA(
      cudaMemsetAsync(tickets_.as<void>(), 0, static_cast<size_t>(tickets_.bytes()), stream));
}

Routing RoutedExperts::routing(const ExpertsSpec& spec, int rows) const {
  return {rows,
          spec.used,
          spec.count,
          chosen_.as<int32_t>(),
          weights_.as<float>(),
          places_.as<int32_t>(),
          row_of_.as<int32_t>(),
          begins_.as<int32_t>()};
}

void RoutedExperts::run(const LoadedOp& op, const FusedExperts& experts, int rows, bool dependent) {
  const FusedProgram& fused = s_.fused;
  const auto act = [&](ActId id) { return s_.acts[static_cast<size_t>(id)].as<void>(); };
  const std::vector<ExpertStack> stacks = fused.stacks(experts);
  const int64_t dim = stacks.back().outs, ffn_dim = stacks.back().ins;
  const Routing routing = this->routing(experts.spec, rows);
  float* const x = static_cast<float*>(act(experts.out));
  void* const normed = act(experts.norm.out);
  launch_route(
      {fused.type, x, op.norm, experts.norm.eps, op.router, dim, normed, logits_.as<float>(),
       tickets_.as<unsigned>(), experts.spec.normalized, routing, dependent},
      stream_);
  launch_sort_choices(routing, dependent, stream_);

  const bool apart = stacks.size() > 2;
  for (size_t i = 0; i < stacks.size(); ++i) {
    const bool down = i + 1 == stacks.size();
    if (down && apart) {
      launch_gate({fused.type, pairs_.as<void>(), false, nullptr, gated_.as<void>(),
                   routing.choices(), ffn_dim, experts.spec.activation},
                  stream_);
    }
    ExpertsLaunch launch = experts_launch(fused, experts, stacks[i], rows);
    launch.weight = op.stacks[i].first;
    launch.in = down ? gated_.as<void>() : normed;
    launch.out = down ? sums_.as<void>() : gated_.as<void>();
    if (!down && apart) {
      launch.out = pairs_.as<std::byte>() + static_cast<int64_t>(i) * ffn_dim * fused.element;
    }
    launch.routing = routing;
    launch.multiprocessors = s_.gpu.multiprocessors;
    launch.dependent = dependent;
    const ExpertsKernel kernel = select_experts(launch, s_.gpu, s_.reproducible);
    if (down && sums_at_once(launch, kernel, s_.gpu)) {
      return launch_experts_one(launch, x, experts.scale, stream_);
    }
    launch_experts(launch, kernel, stream_);
  }
  launch_combine({sums_.as<float>(), x, dim, experts.scale, routing, dependent}, stream_);
}

}  // namespace skald::cuda
