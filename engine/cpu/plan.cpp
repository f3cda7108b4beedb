#include "engine/cpu/plan.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/cpu/executor.h"
#include "engine/cpu/fast_attention.h"
#include "engine/cpu/fast_experts.h"
#include "engine/cpu/machine.h"
#include "engine/cpu/row_deltas.h"
#include "engine/program/page_layout.h"

namespace skald::cpu {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// Bytes of norms, biases and convolutions, which are decoded to float32.
int64_t vector_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const Weight& weight : program.weights) {
    if (weight.view.rows == 1) bytes += weight.view.cols * kFloatBytes;
  }
  for (const Op& op : program.ops) {
    const auto* conv = std::get_if<CausalConv>(&op);
    if (conv) bytes += program.act(conv->in).cols * conv->taps * kFloatBytes;
  }
  return bytes;
}

// An upper bound on the workspace of the kernels: a panel for each thread, int8 activations with
// their scales, attention's scratch, and the rows of experts.
int64_t kernel_bytes(const Program& program, const RunOptions& run_options) {
  constexpr int64_t kPanelBytes = 2 << 20, kBytesPerColumn = 128, kBytesPerInt8 = 4;
  const KernelOptions options = kernel_options(program, run_options);
  const CacheTypes types = cache_types(run_options);
  int64_t attention = 0;
  for (const Op& op : program.ops) {
    const auto* o = std::get_if<Attention>(&op);
    if (o) attention = std::max(attention, attention_scratch_floats(o->spec, types) * kFloatBytes);
  }
  return options.threads * (kPanelBytes + kBytesPerColumn * options.max_cols + attention) +
         product_rows(options) * options.max_cols * kBytesPerInt8 + experts_bytes(options);
}

int64_t logit_bytes(const Program& program) {
  const int64_t part =
      program.logits().is_part() ? program.weight(program.logits().weight).view.rows : 0;
  return kLogitRows * (program.vocab() + part) * kFloatBytes;
}

}  // namespace

KernelOptions kernel_options(const Program& program, const RunOptions& options) {
  KernelOptions result;
  result.exact = options.exact;
  result.threads = options.threads > 0 ? options.threads : available_threads();
  result.max_rows = std::max(options.rows, kLogitRows);
  for (const Weight& weight : program.weights) {
    result.max_cols = std::max(result.max_cols, weight.view.cols);
  }
  ExpertsSize& most = result.experts;
  for (const Op& op : program.ops) {
    const auto* o = std::get_if<Experts>(&op);
    if (!o) continue;
    const TensorView& up = program.weight(o->up).view;
    most.count = std::max(most.count, int64_t{o->spec.count});
    most.used = std::max(most.used, int64_t{o->spec.used});
    most.dim = std::max(most.dim, up.cols);
    most.ffn_dim = std::max(most.ffn_dim, up.rows);
  }
  return result;
}

CacheTypes cache_types(const RunOptions& options) {
  return options.cache_types.or_else(cache_types_of(options.exact ? DType::F32 : DType::F16));
}

int64_t state_slots(const Program& program, const RunOptions& options) {
  return program.states.empty() ? 0 : int64_t{options.sequences} + options.checkpoints;
}

MemoryPlan plan_memory(const Model& model, const Program& program, const RunOptions& options) {
  const int64_t page = PageLayout(program, cache_types(options)).bytes;
  const int64_t hidden = program.act(std::get<Logits>(program.ops.back()).in).cols;
  int64_t cols = hidden;  // columns kept for rows with logits, plus all activations
  for (const ActSpec& act : program.acts) cols += act.cols;
  cols += delta_floats(program);
  std::vector<MemoryPart> fixed = {{"weights", model.weights->bytes(), model.weights->mapped()},
                                   {"norms and biases", vector_bytes(program)},
                                   {"activations", options.rows * cols * kFloatBytes},
                                   {"logits", logit_bytes(program)},
                                   {"workspace", kernel_bytes(program, options)}};
  if (model.adapters) fixed.push_back({"adapters", bytes_of(*model.adapters)});
  if (const int64_t slots = state_slots(program, options); slots > 0) {
    fixed.push_back(
        {"recurrent states", bytes_product(slots * kFloatBytes, program.state_floats())});
  }
  PlanRequest request;
  request.context = options.context;
  request.model_context = model.config.context;
  request.short_context = model.config.short_context;
  request.tokens = options.tokens;
  request.sequences = options.sequences;
  request.shared_cache = options.cache_tokens > 0;
  request.device = machine_memory();
  request.cap = options.memory;
  request.parts = [&](int64_t context) {
    std::vector<MemoryPart> parts = fixed;
    parts.insert(parts.begin() + 1,
                 {"cache", bytes_product(page, cache_pages(context, options.sequences,
                                                           options.cache_tokens))});
    return parts;
  };
  MemoryPlan plan = make_plan(request);
  plan.cache_types = cache_types(options);
  return plan;
}

MemoryPlan plan_memory(const Model& model, const RunOptions& options) {
  return plan_memory(model, model.program(), options);
}

}  // namespace skald::cpu
