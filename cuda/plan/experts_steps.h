// Which kernels the products of routed experts take, and what they are launched with.
#pragma once

#include <string>
#include <string_view>

#include "cuda/kernels/experts/experts.h"
#include "cuda/plan/fused_program.h"
#include "cuda/plan/select.h"

namespace skald::cuda {

enum class ExpertsKernel { Few, ManySm90, Many, Plain };

// Which kernel multiplies: by the number of rows, or, where results must not depend on it, one for
// all numbers.
ExpertsKernel select_experts(const ExpertsLaunch& launch, const Gpu& gpu, bool reproducible);
std::string_view kernel_name(ExpertsKernel kernel);
// The down product also sums its experts, so that no kernel follows it.
bool sums_at_once(const ExpertsLaunch& launch, ExpertsKernel kernel, const Gpu& gpu);

// The launch of one stack of experts but for where matrices and buffers lie. Gate and up that are
// two stacks are stored side by side, to be gated afterwards.
ExpertsLaunch experts_launch(const FusedProgram& fused, const FusedExperts& op,
                             const ExpertStack& stack, int rows);

// "route + experts_few + combine"
std::string experts_text(const FusedProgram& fused, const FusedExperts& op, int rows,
                         const Gpu& gpu, bool reproducible);

}  // namespace skald::cuda
