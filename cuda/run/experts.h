// Runs a layer's routed experts: router, choice, products, sum; and owns what only they need. One
// an executor, on its stream and device; run() enqueues and never waits.
#pragma once

#include <string>

#include "cuda/kernels/experts/experts.h"
#include "cuda/run/products.h"

namespace skald::cuda {

enum class ExpertsKernel { Few, ManySm90, Many, Plain };

// Which kernel multiplies: by the number of rows, or, where results must not depend on it, one for
// all numbers.
ExpertsKernel select_experts(const ExpertsLaunch& launch, const Gpu& gpu, bool reproducible);
std::string_view kernel_name(ExpertsKernel kernel);
void launch_experts(const ExpertsLaunch& launch, ExpertsKernel kernel, Stream stream);

// The launch of one stack of experts but for where matrices and buffers lie. Gate and up that are
// two stacks are stored side by side, to be gated afterwards.
ExpertsLaunch experts_launch(const FusedProgram& fused, const FusedExperts& op,
                             const ExpertStack& stack, int rows);

// "route + experts_few + combine"
std::string experts_text(const FusedProgram& fused, const FusedExperts& op, int rows,
                         const Gpu& gpu, bool reproducible);

class RoutedExperts {
 public:
  RoutedExperts(const Products::Setting& setting, Stream stream);

  // `dependent`: LinearLaunch's.
  void run(const LoadedOp& op, const FusedExperts& experts, int rows, bool dependent);

 private:
  Routing routing(const ExpertsSpec& spec, int rows) const;

  Products::Setting s_;
  Stream stream_;
  DeviceMemory logits_, chosen_, weights_, places_, row_of_, begins_, tickets_;
  DeviceMemory gated_, pairs_, sums_;  // [places, ...]
};

}  // namespace skald::cuda
