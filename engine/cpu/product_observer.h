// Shows the inputs of an executor's matrix products to someone else: importance matrices are sums
// of their squares.
#pragma once

#include <memory>

#include "engine/cpu/executor.h"

namespace skald::cpu {

class ProductObserver {
 public:
  virtual ~ProductObserver() = default;
  // Called before rows of `in`, [rows, weight.view.cols], are multiplied by the weight. Each expert
  // comes by itself, with the rows that chose it; so does each head of a product with several. The
  // output's matrix gets all rows of a step, whether their logits are computed or not. Calls come
  // from the thread that runs the step.
  virtual void see(const Weight& weight, const float* in, int64_t rows) = 0;
};

// The observer must outlive the executor.
std::unique_ptr<Executor> make_observed_executor(const Model& model, const RunOptions& options,
                                                 ProductObserver& observer,
                                                 KernelSet kernels = KernelSet::Fast);

}  // namespace skald::cpu
