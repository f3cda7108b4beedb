// Routed experts on the thread pool. The rows of a step are sorted by expert, and the rows of an
// expert are multiplied together: the weights of a chosen expert are read once, those of other
// experts not at all. The result of a row does not depend on other rows: the outputs of its experts
// are added in the order of the expert numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/cpu/fast_linear.h"
#include "engine/cpu/fast_pointwise.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/thread_pool.h"

namespace skald::cpu {

// Chooses `used` experts for a row: their numbers in ascending order, and their weights. Of equal
// logits, the lower number wins. NaN logits give an arbitrary valid choice. `bias` is
// ExpertsArgs::choice_bias. The logits are overwritten: scaled, and by Gating::Sigmoid replaced by
// their sigmoids.
void choose_experts(float* logits, const float* bias, const ExpertsSpec& spec, int32_t* experts,
                    float* weights);

// The rows of the experts' workspace, where a row counts once for each of its experts. At least
// options.max_rows, so that all rows of one expert fit.
int64_t expert_rows(const KernelOptions& options);
int64_t experts_bytes(const KernelOptions& options);  // bytes of the workspace

class FastExperts {
 public:
  FastExperts(const KernelOptions& options, ThreadPool& pool, FastLinear& linear);

  void run(const ExpertsArgs& args);

 private:
  void route(const ExpertsArgs& args);
  void take_choice(const ExpertsArgs& args);
  void sort(const ExpertsArgs& args);
  // Computes experts [first, end), whose rows must fit the workspace.
  void compute(const ExpertsArgs& args, int first, int end);
  void multiply(const ExpertsArgs& args, int first, int end);
  void add_up(const ExpertsArgs& args, int64_t from, int64_t to);

  const KernelOptions options_;
  const int64_t most_;  // rows of the workspace: expert_rows()
  ThreadPool& pool_;
  FastLinear& linear_;
  const PointwiseKernels& pointwise_;

  Buffer logits_;                // [max_rows, count]
  std::vector<int32_t> chosen_;  // [rows, used]
  std::vector<float> weights_;   // [rows, used]
  // [rows, used]: index of each choice in the order sorted by expert; -1: the choice is left out
  std::vector<int64_t> places_;
  std::vector<int64_t> begins_;  // [count + 1]: where an expert's places begin
  std::vector<int64_t> next_;    // [count]: scratch of sort()
  std::vector<int32_t> row_of_;  // [rows * used]: the row of each place
  Buffer x_;                     // [most_, dim]: inputs of the current places, then their outputs
  Buffer gate_, up_;             // [most_, ffn_dim]
  std::vector<LinearArgs> products_;
};

}  // namespace skald::cpu
