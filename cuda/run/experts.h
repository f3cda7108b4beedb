// Runs a layer's routed experts: router, choice, products, sum; and owns what only they need. One
// an executor, on its stream and device; run() enqueues and never waits.
#pragma once

#include "cuda/plan/experts_steps.h"
#include "cuda/run/products.h"

namespace skald::cuda {

void launch_experts(const ExpertsLaunch& launch, ExpertsKernel kernel, Stream stream);

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
