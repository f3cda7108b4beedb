#include "cuda/plan/plan.h"

#include <algorithm>

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/gemm/gemm_cublas.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

// Memory that CUDA needs besides our named allocations: kernels, graphs, cuBLAS.
constexpr int64_t kReserveBytes = 384 << 20;
// Loading needs its buffers only before graphs and cuBLAS take memory from the reserve.
static_assert(kLoadingBytes < kReserveBytes);
constexpr std::string_view kCopyPart = "16-bit copy", kExpandedPart = "16-bit rows";
// Positions are 32-bit numbers on the GPU.
constexpr int64_t kMostContext = (int64_t{1} << 31) - kPageTokens;

}  // namespace

int used_capability(const DeviceInfo& gpu, const RunOptions& options) {
  if (options.arch_limit == 0) return gpu.compute_capability;
  return std::min(gpu.compute_capability, options.arch_limit);
}

SizeOptions size_options(const FusedProgram& fused, const RunOptions& options,
                         const DeviceInfo& gpu) {
  SizeOptions sizes;
  sizes.rows = options.rows;
  sizes.sequences = options.sequences;
  sizes.checkpoints = options.checkpoints;
  sizes.cache_tokens = options.cache_tokens;
  sizes.scores = options.scores;
  sizes.reproducible = options.reproducible;
  sizes.multiprocessors = gpu.multiprocessors;
  sizes.cache_type = options.cache_type;
  for (const AttentionSpec& spec : fused.specs) {
    check_attention(fused.type, options.cache_type.value_or(fused.type), spec, 0);
  }
  sizes.attention = attention_code_of(fused.type, used_capability(gpu, options));
  return sizes;
}

namespace {

MemoryPlan plan_with(bool copies, const FusedProgram& fused, const RunOptions& options,
                     const ModelConfig& model, const DeviceInfo& gpu) {
  if (options.context > kMostContext) {
    fail(Exit::Usage, "-c ", options.context, ": a GPU takes a context of at most ", kMostContext);
  }
  PlanRequest request;
  request.context = options.context;
  request.model_context = std::min(model.context, kMostContext);
  request.short_context = model.short_context;
  request.tokens = options.tokens;
  request.sequences = options.cache_tokens > 0 ? 1 : options.sequences;
  request.device = {gpu.total_bytes, gpu.free_bytes};
  request.cap = options.memory;
  SizeOptions size = size_options(fused, options, gpu);
  size.copies = copies;
  request.parts = [&](int64_t context) -> std::vector<MemoryPart> {
    size.context = context;
    const Sizes s(fused, size);
    std::vector<MemoryPart> parts = {{"weights", s.weights}};
    if (fused.quantized()) {
      parts.push_back({copies ? kCopyPart : kExpandedPart, s.copies + s.expanded});
    }
    const MemoryPart others[] = {{"cache", s.cache()},
                                 {"activations", s.activations()},
                                 {"logits", s.logits},
                                 {"sampling", s.sampling},
                                 {"scoring", padded(s.scored) + s.scoring},
                                 {"attention", padded(s.attention) + padded(s.tickets)},
                                 {"step table", s.step.bytes + padded(s.product_tickets)},
                                 {"cuBLAS", kCublasWorkspaceBytes},
                                 {"CUDA itself", kReserveBytes},
                                 {"spare", kSpareBytes}};
    parts.insert(parts.end(), std::begin(others), std::end(others));
    if (s.slots > 0) parts.push_back({"recurrent states", s.states()});
    return parts;
  };
  return make_plan(request);
}

}  // namespace

MemoryPlan plan_memory(const FusedProgram& fused, const RunOptions& options,
                       const ModelConfig& model, const DeviceInfo& gpu) {
  if (!fused.quantized() || options.prefill_copy == PrefillCopy::Off) {
    return plan_with(false, fused, options, model, gpu);
  }
  const MemoryPlan plan = plan_with(true, fused, options, model, gpu);
  constexpr int64_t kShare = 2;  // a plan with copies may need half of the available memory
  const bool roomy =
      plan.context_by != MemoryPlan::ContextBy::Memory && plan.needed() <= plan.available / kShare;
  if (roomy || options.prefill_copy == PrefillCopy::On) return plan;
  return plan_with(false, fused, options, model, gpu);
}

bool has_copies(const MemoryPlan& plan) {
  return std::any_of(plan.parts.begin(), plan.parts.end(),
                     [](const MemoryPart& part) { return part.name == kCopyPart; });
}

PlannedStep planned_step(const FusedProgram& fused, const RunOptions& options,
                         const MemoryPlan& memory, const DeviceInfo& gpu) {
  SizeOptions size = size_options(fused, options, gpu);
  size.context = memory.context;
  size.copies = has_copies(memory);
  PlannedStep planned{Sizes(fused, size), {}};
  PlanSetting& setting = planned.setting;
  setting.gpu = {used_capability(gpu, options), gpu.multiprocessors};
  setting.attention = size.attention;
  setting.dependent = has_dependent_launches(setting.gpu);
  setting.clusters = true;
  setting.reproducible = options.reproducible;
  setting.copies = size.copies;
  setting.expanded_bytes = planned.sizes.expanded;
  setting.expanded_experts = planned.sizes.experts.expanded;
  setting.bounds = assumed_bounds(fused);
  return planned;
}

MemoryPlan plan_memory(const Model& model, const RunOptions& options, const DeviceInfo& gpu) {
  return plan_memory(fuse_program(model.program()), options, model.config, gpu);
}

int64_t default_rows(const Model& model, const RunOptions& options, const DeviceInfo& gpu) {
  constexpr int64_t kMost = 8192;  // more rows make products no faster
  constexpr int64_t kLeast = 512;
  constexpr int64_t kShare = 16;  // a step's buffers may take 1/16 of the available memory
  const FusedProgram fused = fuse_program(model.program());
  RunOptions tried = options;
  for (tried.rows = kMost; tried.rows > kLeast; tried.rows /= 2) {
    const MemoryPlan plan = plan_memory(fused, tried, model.config, gpu);
    const Sizes sizes(fused, size_options(fused, tried, gpu));
    const bool small = sizes.activations() <= plan.available / kShare;
    if (small && plan.fits()) break;
  }
  const int64_t own =
      model.config.short_context > 0 ? model.config.short_context : model.config.context;
  const int64_t context = options.context > 0 ? options.context : own;
  const int64_t tokens =
      bytes_product(cache_pages(context, options.sequences, options.cache_tokens), kPageTokens);
  return std::min(tried.rows, tokens);
}

}  // namespace skald::cuda
