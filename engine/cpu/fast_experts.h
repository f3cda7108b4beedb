// Routed experts on the thread pool. A step's rows are sorted by expert and those of an expert
// multiplied together, so that a chosen expert's weights are read once and others not at all. What
// a row gets depends on nothing but the row: its experts' results are added in the order of their
// numbers, whoever else is there.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/cpu/fast_linear.h"
#include "engine/cpu/fast_pointwise.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/thread_pool.h"

namespace skald::cpu {

// A row's experts, in the order of their numbers, and their weights: [used] each. Where logits are
// equal the lower number comes first; logits that are not numbers choose some.
void choose_experts(const float* logits, const ExpertsSpec& spec, int32_t* experts, float* weights);

// Rows that are computed at a time: a row counts once for each of its experts. Never less than
// options.max_rows, so that all of an expert's are among them.
int64_t expert_rows(const KernelOptions& options);
int64_t experts_bytes(const KernelOptions& options);  // of its workspace

class FastExperts {
 public:
  FastExperts(const KernelOptions& options, ThreadPool& pool, FastLinear& linear);

  void run(const ExpertsArgs& args);

 private:
  void route(const ExpertsArgs& args);
  void sort(const ExpertsArgs& args);
  // Experts [first, end), whose rows fit in the workspace.
  void compute(const ExpertsArgs& args, int first, int end);
  void multiply(const ExpertsArgs& args, int first, int end);
  void add_up(const ExpertsArgs& args, int64_t from, int64_t to);

  const KernelOptions options_;
  const int64_t most_;  // expert_rows()
  ThreadPool& pool_;
  FastLinear& linear_;
  const PointwiseKernels& pointwise_;

  Buffer logits_;                // [max_rows, count]
  std::vector<int32_t> chosen_;  // [rows, used]
  std::vector<float> weights_;   // [rows, used]
  std::vector<int64_t> places_;  // [rows, used]: of each choice, among all sorted by expert
  std::vector<int64_t> begins_;  // [count + 1]: of an expert's places
  std::vector<int64_t> next_;    // [count]: while sorting
  std::vector<int32_t> row_of_;  // [rows * used]: of each place
  Buffer x_;                     // [most_, dim]: inputs of the places at hand, then their results
  Buffer gate_, up_;             // [most_, ffn_dim]
  std::vector<LinearArgs> products_;
};

}  // namespace skald::cpu
