#include "cuda/plan/plan.h"

#include <algorithm>

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/gemm/gemm_cublas.h"
#include "cuda/plan/host_op.h"
#include "cuda/plan/place_rules.h"
#include "engine/base/error.h"
#include "engine/quant/cache_row.h"

namespace skald::cuda {
namespace {

// Memory that CUDA needs besides our named allocations: kernels, graphs, cuBLAS.
constexpr int64_t kReserveBytes = 384 << 20;
// Loading needs its buffers only before graphs and cuBLAS take memory from the reserve.
static_assert(kLoadingBytes < kReserveBytes);
constexpr std::string_view kCopyPart = "16-bit copy", kExpandedPart = "16-bit rows",
                           kWeightPart = "weights", kSlotPart = "slots for streamed weights",
                           kCachePart = "cache of experts";
// A context that nobody asks for is at most this, if weights have to leave the GPU's memory.
constexpr int64_t kContextBesideWeights = 4096;
// Weights leave the GPU's memory if a text that is asked for, or this context, would not fit
// otherwise.
constexpr int64_t kLeastContext = 2048;
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
  sizes.cache_types = options.cache_types;
  sizes.place.rules = place_rules(fused, options);
  sizes.place.host = options.host_memory;
  sizes.attention = attention_code_of(fused.type, used_capability(gpu, options));
  return sizes;
}

namespace {

// What a plan does with the memory that is there.
// Cached: experts in the GPU's memory are a cache of those on the host (PlaceRequest::caches).
enum class Use : uint8_t { Resident, Copies, Streamed, Cached };

int64_t part_bytes(const MemoryPlan& plan, std::string_view name) {
  int64_t bytes = 0;
  for (const MemoryPart& part : plan.parts) bytes += part.name == name ? part.bytes : 0;
  return bytes;
}

// All parts but weights.
std::vector<MemoryPart> other_parts(const FusedProgram& fused, const Sizes& s) {
  std::vector<MemoryPart> parts;
  if (fused.quantized()) {
    parts.push_back({s.copies > 0 ? kCopyPart : kExpandedPart, s.copies + s.expanded});
  }
  const MemoryPart others[] = {{"cache", s.cache() + s.plain_cache()},
                               {"activations", s.activations()},
                               {"logits", padded(s.logits) + s.logits_part},
                               {"sampling", s.sampling},
                               {"scoring", padded(s.scored) + s.scoring},
                               {"attention", padded(s.attention) + padded(s.tickets)},
                               {"step table", s.step.bytes + padded(s.product_tickets)},
                               {"cuBLAS", kCublasWorkspaceBytes},
                               {"CUDA itself", kReserveBytes},
                               {"spare", kSpareBytes}};
  parts.insert(parts.end(), std::begin(others), std::end(others));
  if (s.slots > 0) parts.push_back({"recurrent states", s.states()});
  if (s.mail > 0) parts.push_back({"exchange with other GPUs", s.mail});
  return parts;
}

std::vector<MemoryPart> weight_parts(const Placement& placement, bool cached) {
  std::vector<MemoryPart> parts = {{kWeightPart, placement.device}};
  if (cached) parts.push_back({kCachePart, placement.caches});
  const int64_t slots = placement.slots + (cached ? 0 : placement.caches);
  if (slots > 0) parts.push_back({kSlotPart, slots});
  if (placement.host > 0) {
    parts.push_back({"weights on the host", placement.host, false, true});
  }
  return parts;
}

// The share of the layers' weights that stays in the GPU's memory; empty: as much as fits. A number
// that is larger than the model's asks for all that fit.
std::optional<double> resident_share(const RunOptions& options, const ModelConfig& model) {
  const int layers = options.gpu_layers.value_or(model.layers);
  if (layers == kAllLayers) return 1;
  if (layers >= model.layers) return {};
  return static_cast<double>(layers) / model.layers;
}

// What a step of several rows reads of the experts in the host's memory.
void count_experts(const FusedProgram& fused, const Placement& placement, MemoryPlan& plan) {
  if (placement.kind == HostMemoryKind::Pageable) return;  // all are copied
  for (size_t op : placement.hosted()) {
    const auto* experts = std::get_if<FusedExperts>(&fused.ops[op].op);
    if (!experts) continue;
    const OpPlace& place = placement.ops[op];
    plan.copied_experts += place.bytes / experts->spec.count * (experts->spec.count - place.cached);
    plan.chosen = static_cast<double>(experts->spec.used) / experts->spec.count;
  }
  plan.most_chosen = placement.kind == HostMemoryKind::Mapped ? 1 : kMostReadInPlace;
}

MemoryPlan plan_with(Use use, const FusedProgram& fused, const RunOptions& options,
                     const ModelConfig& model, const DeviceInfo& gpu) {
  if (options.context > kMostContext) {
    fail(Exit::Usage, "-c ", options.context, ": a GPU takes a context of at most ", kMostContext);
  }
  PlanRequest request;
  request.context = options.context;
  request.model_context = std::min(model.context, kMostContext);
  request.short_context = model.short_context;
  request.tokens = options.tokens;
  request.sequences = options.sequences;
  request.shared_cache = options.cache_tokens > 0;
  request.device = {gpu.total_bytes, gpu.free_bytes};
  request.cap = options.memory;
  request.host_available = gpu.host_bytes / options.executors;
  const int64_t usable = usable_bytes(request.device, request.cap);
  const bool streams = use == Use::Streamed || use == Use::Cached;
  if (streams) {
    const int64_t tokens = pages_for(options.tokens) * kPageTokens;
    request.context_beside_weights = std::max(kContextBesideWeights, tokens);
  }
  SizeOptions size = size_options(fused, options, gpu);
  size.copies = use == Use::Copies;
  Placement placement;
  request.parts = [&](int64_t context) {
    size.context = context;
    const Sizes s(fused, size);
    const std::vector<MemoryPart> others = other_parts(fused, s);
    placement = s.placement;
    if (streams) {
      int64_t room = usable;
      for (const MemoryPart& part : others) room -= std::min(room, part.bytes);
      placement = place_weights(fused, {room, resident_share(options, model), use == Use::Cached,
                                        size.place.rules, options.host_memory});
    }
    std::vector<MemoryPart> parts = weight_parts(placement, use == Use::Cached);
    parts.insert(parts.end(), others.begin(), others.end());
    return parts;
  };
  MemoryPlan plan = make_plan(request);  // ends with parts(plan.context)
  plan.cache_types = options.cache_types.or_else(cache_types_of(fused.type));
  plan.host_memory = options.host_memory;
  plan.host_by_rule = placement.host_by_rule;
  plan.device_by_rule = placement.device_by_rule;
  plan.copied = placement.streamed_bytes;
  plan.cached = use == Use::Cached ? placement.caches : 0;
  plan.row_copied = placement.row_bytes;
  count_experts(fused, placement, plan);
  plan.rows = options.rows;
  plan.link = plan.copy_link = gpu.link_bytes_per_second;
  const bool shared = plan.copied_experts == plan.copied && plan.host_by_rule == 0;
  plan.cpu_rows = shared ? kMostSharedRows : kMostHostRows;
  return plan;
}

// A cache needs room for all experts on the host, in memory that kernels read.
MemoryPlan streamed_plan(const FusedProgram& fused, const RunOptions& options,
                         const ModelConfig& model, const DeviceInfo& gpu) {
  const bool locked =
      options.host_memory == HostMemoryKind::Auto || options.host_memory == HostMemoryKind::Pinned;
  const PlaceRules rules = place_rules(fused, options);
  bool experts = false;
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    const bool free = rules.empty() || !rules[i];
    experts |= free && std::holds_alternative<FusedExperts>(fused.ops[i].op);
  }
  if (experts && locked) {
    const MemoryPlan plan = plan_with(Use::Cached, fused, options, model, gpu);
    if (plan.fits_host()) return plan;
  }
  return plan_with(Use::Streamed, fused, options, model, gpu);
}

bool rules_move_weights(const FusedProgram& fused, const RunOptions& options) {
  return !options.weight_rules.empty() &&
         place_weights(fused, {.rules = place_rules(fused, options)}).host > 0;
}

// All weights stay that no rule moves.
MemoryPlan resident_plan(const FusedProgram& fused, const RunOptions& options,
                         const ModelConfig& model, const DeviceInfo& gpu) {
  if (!fused.quantized() || options.prefill_copy == PrefillCopy::Off ||
      rules_move_weights(fused, options)) {
    return plan_with(Use::Resident, fused, options, model, gpu);
  }
  const MemoryPlan plan = plan_with(Use::Copies, fused, options, model, gpu);
  constexpr int64_t kShare = 2;  // a plan with copies may need half of the available memory
  const bool roomy =
      plan.context_by != MemoryPlan::ContextBy::Memory && plan.needed() <= plan.available / kShare;
  if (roomy || options.prefill_copy == PrefillCopy::On) return plan;
  return plan_with(Use::Resident, fused, options, model, gpu);
}

}  // namespace

MemoryPlan plan_memory(const FusedProgram& fused, const RunOptions& options,
                       const ModelConfig& model, const DeviceInfo& gpu) {
  const std::optional<double> share = resident_share(options, model);
  const bool copies = fused.quantized() && options.prefill_copy == PrefillCopy::On;
  const bool fewer = share && *share < 1;
  if (copies && (fewer || rules_move_weights(fused, options))) {
    fail(Exit::Usage,
         "--prefill-copy on copies weights that lie in the GPU's memory alone; leave it out, or ",
         fewer ? "--gpu-layers" : "--override-tensor and --cpu-moe");
  }
  if (fewer) return streamed_plan(fused, options, model, gpu);
  MemoryPlan plan = resident_plan(fused, options, model, gpu);
  if (share || copies) return plan;
  const int64_t least = std::min(std::max(kLeastContext, options.tokens), plan.model_context);
  const bool short_of_room =
      plan.context_by == MemoryPlan::ContextBy::Memory && plan.context < least;
  if (plan.fits() && !short_of_room) return plan;
  MemoryPlan streamed = streamed_plan(fused, options, model, gpu);
  return streamed.fits() || !plan.fits() ? streamed : plan;
}

namespace {

bool has_part(const MemoryPlan& plan, std::string_view name) {
  return std::any_of(plan.parts.begin(), plan.parts.end(),
                     [name](const MemoryPart& part) { return part.name == name; });
}

}  // namespace

bool has_copies(const MemoryPlan& plan) { return has_part(plan, kCopyPart); }

int64_t weight_room(const MemoryPlan& plan) {
  return part_bytes(plan, kWeightPart) + part_bytes(plan, kSlotPart) + part_bytes(plan, kCachePart);
}

PlaceRequest planned_place(const FusedProgram& fused, const MemoryPlan& plan,
                           const RunOptions& options, const ModelConfig& model) {
  return {weight_room(plan), resident_share(options, model), has_part(plan, kCachePart),
          place_rules(fused, options), options.host_memory};
}

PlannedStep planned_step(const FusedProgram& fused, const RunOptions& options,
                         const ModelConfig& model, const MemoryPlan& memory,
                         const DeviceInfo& gpu) {
  SizeOptions size = size_options(fused, options, gpu);
  size.context = memory.context;
  size.copies = has_copies(memory);
  size.place = planned_place(fused, memory, options, model);
  PlannedStep planned{Sizes(fused, size), {}};
  PlanSetting& setting = planned.setting;
  setting.gpu = {used_capability(gpu, options), gpu.multiprocessors, gpu.mps};
  setting.attention = size.attention;
  setting.dependent = has_dependent_launches(setting.gpu);
  setting.clusters = true;
  setting.coded_cache = planned.sizes.coded();
  setting.reproducible = options.reproducible;
  setting.copies = size.copies;
  setting.expanded_bytes = planned.sizes.expanded;
  setting.bounds = assumed_bounds(fused);
  setting.placement = planned.sizes.placement;
  return planned;
}

MemoryPlan plan_memory(const Model& model, const RunOptions& options, const DeviceInfo& gpu) {
  return plan_memory(fuse_program(model.program()), options, model.config, gpu);
}

int64_t default_rows(const Model& model, const RunOptions& options, const DeviceInfo& gpu) {
  constexpr int64_t kMost = 8192;  // more rows make products no faster
  constexpr int64_t kLeast = 512;
  // A step's buffers may take this part of the available memory. Scoring needs no other memory, and
  // if each step copies weights, long steps have the time for that.
  const int64_t share = options.scores ? 4 : 16;
  const FusedProgram fused = fuse_program(model.program());
  RunOptions tried = options;
  tried.rows = kLeast;
  // Long steps are worth no weights that leave the GPU.
  const bool streams = plan_memory(fused, tried, model.config, gpu).copied > 0;
  for (tried.rows = kMost; tried.rows > kLeast; tried.rows /= 2) {
    const MemoryPlan plan = plan_memory(fused, tried, model.config, gpu);
    const Sizes sizes(fused, size_options(fused, tried, gpu));
    const bool small = sizes.activations() <= plan.available / share;
    if (small && plan.fits() && (streams || plan.copied == 0)) break;
  }
  const int64_t own =
      model.config.short_context > 0 ? model.config.short_context : model.config.context;
  const int64_t context = options.context > 0 ? options.context : own;
  const int64_t tokens =
      bytes_product(cache_pages(context, options.sequences, options.cache_tokens), kPageTokens);
  return std::min(tried.rows, tokens);
}

}  // namespace skald::cuda
