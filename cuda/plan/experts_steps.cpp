#include "cuda/plan/experts_steps.h"

#include "cuda/plan/sizes.h"

namespace skald::cuda {

ExpertsKernel select_experts(const ExpertsLaunch& launch, const Gpu& gpu, bool reproducible) {
  // Up to these, tiles of 8 places read most experts' weights once.
  constexpr int kFewRows = 16, kFewPlaces = 4;  // the latter of an expert, on average
  // From so many on, tiles of 128 are worth it for weights that become bf16 on the way.
  constexpr int kManyPlaces = 64;
  const Routing& r = launch.routing;
  const bool few = r.rows <= kFewRows || r.choices() <= kFewPlaces * int64_t{r.count};
  if (few && !reproducible && supports_experts_few(launch, gpu.compute_capability)) {
    return ExpertsKernel::Few;
  }
  const bool plain = info(launch.format).block_elems == 1;
  const bool many = !reproducible && r.choices() >= kManyPlaces * int64_t{r.count};
  if ((plain || many) && supports_experts_many_sm90(launch, gpu.compute_capability)) {
    return ExpertsKernel::ManySm90;
  }
  if (supports_experts_many(launch, gpu.compute_capability)) return ExpertsKernel::Many;
  return ExpertsKernel::Plain;
}

std::string_view kernel_name(ExpertsKernel kernel) {
  switch (kernel) {
    case ExpertsKernel::Few:
      return "experts_few";
    case ExpertsKernel::ManySm90:
      return "experts_many_sm90";
    case ExpertsKernel::Many:
      return "experts_many";
    case ExpertsKernel::Plain:
      break;
  }
  return "experts_plain";
}

bool sums_at_once(const ExpertsLaunch& launch, ExpertsKernel kernel, const Gpu& gpu) {
  return kernel == ExpertsKernel::Few && supports_experts_one(launch, gpu.compute_capability);
}

ExpertsLaunch experts_launch(const FusedProgram& fused, const FusedExperts& op,
                             const ExpertStack& stack, int rows) {
  const bool down = stack.parts.front() == op.down, pairs = stack.parts.size() > 1;
  ExpertsLaunch launch = {};
  launch.type = fused.type;
  launch.format = stack.format;
  launch.stride = padded(matrix_bytes(stack.format, stack.outs, stack.ins));
  launch.outs = stack.outs;
  launch.ins = stack.ins;
  launch.by_place = down;
  launch.epilogue = down ? Epilogue::Floats : pairs ? Epilogue::Gated : Epilogue::Store;
  launch.out_stride = down ? stack.outs : pairs ? stack.outs / 2 : 2 * stack.outs;
  launch.activation = op.spec.activation;
  launch.routing.rows = rows;
  launch.routing.used = op.spec.used;
  launch.routing.count = op.spec.count;
  return launch;
}

std::string experts_text(const FusedProgram& fused, const FusedExperts& op, int rows,
                         const Gpu& gpu, bool reproducible) {
  std::string text = rows > 1 ? "route + sort_choices" : "route", last;
  const std::vector<ExpertStack> stacks = fused.stacks(op);
  for (const ExpertStack& stack : stacks) {
    const ExpertsLaunch launch = experts_launch(fused, op, stack, rows);
    const ExpertsKernel selected = select_experts(launch, gpu, reproducible);
    if (&stack == &stacks.back() && stacks.size() > 2) text += " + gate", last = "gate";
    if (&stack == &stacks.back() && sums_at_once(launch, selected, gpu)) {
      return text + " + experts_one";
    }
    const std::string kernel(kernel_name(selected));
    if (kernel != last) text += " + " + kernel;
    last = kernel;
  }
  return text + " + combine";
}

}  // namespace skald::cuda
