#include "cuda/run/step_ops.h"

#include <algorithm>

#include "cuda/gpu/check.h"
#include "cuda/kernels/exchange/all_gather.h"
#include "cuda/kernels/exchange/all_reduce.h"
#include "cuda/kernels/gemv/head_products.h"
#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/kernels/tiles/tiles.h"
#include "cuda/run/launchers.h"
#include "engine/base/overloaded.h"
#include "engine/program/shard.h"

namespace skald::cuda {
namespace {

// The most plans that are kept. Decode has few kinds of steps; prompts may have any number of rows.
constexpr size_t kMostPlans = 512;

PlanSetting plan_setting(const StepOps::Parts& parts, const StepOps::Setting& setting) {
  PlanSetting result;
  result.gpu = setting.gpu;
  result.attention = setting.attention;
  result.dependent = setting.dependent;
  result.clusters = setting.clusters;
  result.coded_cache = parts.sizes.coded();
  result.reproducible = setting.reproducible;
  result.copies = parts.sizes.copies > 0;
  result.expanded_bytes = parts.sizes.expanded;
  result.placement = parts.sizes.placement;
  result.host = setting.host;
  for (const LoadedOp& op : parts.loaded.ops()) result.bounds.push_back(op.bound);
  return result;
}

}  // namespace

StepOps::StepOps(const Parts& parts, const Setting& setting, Stream stream)
    : p_(parts),
      setting_(plan_setting(parts, setting)),
      stream_(stream),
      room_(runs_on(KernelCode::Sm90a, setting.gpu.compute_capability) ? cluster_room()
                                                                       : ClusterRoom()),
      memory_(parts.sizes, stream) {}

void StepOps::run(const Rows& rows) {
  run({plan(kind(rows)), rows.count, nullptr, rows.sequences});
}

StepKind StepOps::kind(const Rows& rows) const {
  StepKind kind;
  kind.rows = rows.count;
  kind.decode = rows.decode;
  kind.depth = rows.decode ? rows.depth : 0;
  kind.after_pick = rows.after_pick;
  kind.several = rows.decode && rows.several;
  kind.observed = p_.observer != nullptr;
  kind.few_each = !rows.decode && rows.count < kFewestChunkRows * rows.sequences;
  return kind;
}

void StepOps::norm_rows(const float* in, float* out, int rows) {
  const LoadedOp& head = p_.loaded.head();
  const FusedLinear& linear = p_.fused.head();
  launch_norm({linear.norm->kind, DType::F32, in, head.norm, head.norm_bias, out, rows,
               p_.fused.ins(linear), linear.norm->eps},
              stream_);
}

void StepOps::run_head(const void* in, int rows, bool decode) {
  StepKind kind;
  kind.rows = rows;
  kind.decode = decode;
  kind.head = true;
  run({plan(kind), rows, in, 0});
}

const StepPlan& StepOps::plan(const StepKind& kind) {
  const auto found = plans_.find(kind);
  if (found != plans_.end()) return found->second;
  if (plans_.size() >= kMostPlans) plans_.clear();
  return plans_.emplace(kind, plan_step(p_.fused, setting_, kind)).first->second;
}

void StepOps::run(const Step& step) {
  const std::vector<StepEntry>& entries = step.plan.entries;
  if (step.plan.copies()) p_.copies.begin(step.plan);
  try {
    for (size_t i = 0; i < entries.size(); ++i) {
      const StepEntry& entry = entries[i];
      std::visit([&](const auto& kind) { launch(step, entry, kind); }, entry.kind);
      const bool last = i + 1 == entries.size() || entries[i + 1].op != entry.op;
      if (last && p_.observer && !step.head_input) observe(p_.fused.ops[entry.op], step.rows);
    }
  } catch (...) {
    if (step.plan.waits && !is_captured()) p_.host->abort();
    memory_.clear_sent(stream_);
    throw;
  }
  if (step.plan.copies()) p_.copies.end(step.plan);
}

void* StepOps::address(const Step& step, const BufferName& buffer, DType type) const {
  using Kind = BufferName::Kind;
  const auto base = [&]() -> const void* {
    switch (buffer.kind) {
      case Kind::Act:
        return act(buffer.act);
      case Kind::HeadInput:
        return step.head_input;
      case Kind::Logits:
        return p_.logits.as<void>();
      case Kind::LogitsPart:
        return memory_.logits_part.as<void>();
      case Kind::Pairs:
        return memory_.products.pairs.as<void>();
      case Kind::ExpertsGated:
        return memory_.experts.gated.as<void>();
      case Kind::ExpertsPairs:
        return memory_.experts.pairs.as<void>();
      case Kind::ExpertsSums:
        return memory_.experts.sums.as<void>();
    }
    return nullptr;
  };
  const auto* bytes = static_cast<const std::byte*>(base());
  return const_cast<std::byte*>(bytes + row_bytes(type, buffer.first_col));
}

void StepOps::launch(const Step& step, const StepEntry& entry, const EmbedEntry& embed) {
  const Matrix& table = loaded(entry).pieces.front();
  const EmbedLaunch launch = {table.format,
                              table.data,
                              p_.step.table().tokens,
                              act<float>(op<Embed>(entry).out),
                              step.rows,
                              table.ins,
                              embed.scale,
                              entry.dependent};
  (embed.tiles ? launch_embed_q : launch_embed)(launch, stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const GivenEntry&) {
  const auto& given = op<Given>(entry);
  const int64_t cols = p_.fused.cols(given.out);
  launch_copy_part({DType::F32,
                    p_.fused.type_of(given.out),
                    p_.step.given() + given.first,
                    act(given.out),
                    step.rows,
                    1,
                    cols,
                    {0, p_.sizes.step.given_cols},
                    {0, cols},
                    entry.dependent},
                   stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const PartEntry&) {
  const auto& [out, from, to, heads, cols] = op<FusedPart>(entry);
  launch_copy_part({p_.fused.type_of(from.buffer),
                    p_.fused.type_of(out),
                    columns(from),
                    columns(to),
                    step.rows,
                    heads,
                    cols,
                    {from.width, from.stride},
                    {to.width, to.stride},
                    entry.dependent},
                   stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const BufferNormEntry&) {
  const auto& norm = op<BufferNorm>(entry);
  const int64_t cols = p_.fused.cols(norm.out);
  launch_qk_norm({p_.fused.type, act(norm.out), loaded(entry).norm, nullptr, cols, 0, cols,
                  step.rows, norm.eps, entry.dependent},
                 stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const HeadProductsEntry&) {
  const auto& products = op<HeadProducts>(entry);
  const Matrix& weight = loaded(entry).pieces.front();
  const HeadPlace &from = products.from, &to = products.to;
  launch_head_products({p_.fused.type,
                        weight.data,
                        weight.outs / products.heads,
                        weight.ins,
                        columns(from),
                        columns(to),
                        {from.width, from.stride},
                        {to.width, to.stride},
                        products.heads,
                        step.rows,
                        entry.dependent},
                       stream_);
}

// The first head's columns in the first row.
std::byte* StepOps::columns(const HeadPlace& place) const {
  return act<std::byte>(place.buffer) + row_bytes(p_.fused.type_of(place.buffer), place.first);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const ToTypeEntry& to) {
  launch_to_type(p_.fused.type, act<float>(p_.fused.hidden), act(to.out),
                 step.rows * p_.fused.ins(op<FusedLinear>(entry)), stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const NormEntry& norm) {
  const LoadedOp& weights = loaded(entry);
  const auto* in = static_cast<const float*>(address(step, norm.in, DType::F32));
  const DType type = norm.out == p_.fused.hidden ? DType::F32 : p_.fused.type;
  launch_norm({norm.kind, type, in, weights.norm, weights.norm_bias, act(norm.out), step.rows,
               p_.fused.cols(p_.fused.hidden), norm.eps, entry.dependent},
              stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const RmsNormEntry& norm) {
  const auto* in = static_cast<const float*>(address(step, norm.in, DType::F32));
  launch_rms_norm({p_.fused.type, in, loaded(entry).norm, act(norm.out), step.rows,
                   p_.fused.ins(op<FusedLinear>(entry)), norm.eps},
                  stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const GateEntry& gate) {
  const auto& linear = op<FusedLinear>(entry);
  launch_gate({p_.fused.type, memory_.products.pairs.as<void>(), gate.alternate,
               gate.bias ? loaded(entry).bias : nullptr, act(linear.out), step.rows,
               p_.fused.outs(linear) / 2, linear.activation},
              stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const BiasEntry& bias) {
  const auto& linear = op<FusedLinear>(entry);
  launch_add_bias(
      {bias.type, address(step, bias.out, bias.type), bias.bias ? loaded(entry).bias : nullptr,
       step.rows, p_.fused.outs(linear), bias.scale, bias.activates, linear.activation},
      stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const PostNormEntry& norm) {
  const auto& linear = op<FusedLinear>(entry);
  launch_post_norm({p_.fused.type, act<float>(p_.fused.product(linear)), loaded(entry).post_norm,
                    act<float>(linear.out), norm.copy ? act(p_.fused.copy) : nullptr,
                    step.rows * linear.norm_parts, p_.fused.outs(linear) / linear.norm_parts,
                    linear.post_norm->eps, linear.scale, linear.keep, entry.dependent},
                   stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const CapEntry& cap) {
  const auto& linear = op<FusedLinear>(entry);
  auto* const logits = static_cast<float*>(address(step, cap.logits, DType::F32));
  launch_cap(
      {logits, step.rows * p_.fused.outs(linear), linear.scale, linear.softcap, entry.dependent},
      stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const GatherEntry&) {
  AllGatherLaunch launch = {};
  launch.in = memory_.logits_part.as<float>();
  launch.out = p_.logits.as<float>();
  launch.rows = step.rows;
  const Shard& shard = p_.fused.program.shard;
  const std::vector<int64_t> borders = logit_borders(p_.fused.program.vocab(), shard.of);
  std::copy(borders.begin(), borders.end(), launch.first);
  launch.dependent = entry.dependent;
  launch.mail = p_.exchange->links(shard.rank);
  launch_all_gather(launch, stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const RowGateEntry&) {
  const auto& gate = op<RowGate>(entry);
  launch_row_gate({p_.fused.type, act(gate.x), act(gate.in), loaded(entry).gate, step.rows,
                   p_.fused.cols(gate.x), p_.fused.cols(gate.in), entry.dependent},
                  stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const GatedActEntry&) {
  const auto& gated = op<GatedAct>(entry);
  launch_gated_act({p_.fused.type, act(gated.out), act(gated.gate),
                    step.rows * p_.fused.cols(gated.out), gated.activation, entry.dependent},
                   stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const GatedPartEntry&) {
  const auto& gated = op<GatedPart>(entry);
  launch_gated_part(
      {p_.fused.type, act(gated.out), act<float>(gated.up) + gated.first, step.rows,
       p_.fused.cols(gated.out), p_.fused.cols(gated.up), gated.activation, entry.dependent},
      stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const SumOfNormsEntry&) {
  const auto& sum = op<SumOfNorms>(entry);
  const LoadedOp& weights = loaded(entry);
  launch_sum_of_norms({act<float>(sum.a), act<float>(sum.b), weights.a_norm, weights.b_norm,
                       weights.norm, act<float>(sum.out), step.rows, p_.fused.cols(sum.out),
                       sum.eps, sum.scale, sum.keep, entry.dependent},
                      stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const ExchangeEntry&) {
  const auto& exchange = op<FusedExchange>(entry);
  AllReduceLaunch launch = {};
  launch.in = act<float>(exchange.in);
  launch.out = act<float>(exchange.norm ? exchange.in : exchange.out);
  launch.count = step.rows * p_.fused.cols(exchange.in);
  launch.scale = exchange.scale;
  launch.adds = !exchange.in_place() && !exchange.norm;
  launch.rounds = p_.fused.type != DType::F32 && !setting_.reproducible;
  launch.dependent = entry.dependent;
  launch.mail = p_.exchange->links(p_.fused.program.shard.rank);
  launch_all_reduce(launch, stream_);
  if (!exchange.norm) return;
  launch_post_norm({p_.fused.type, act<float>(exchange.in), loaded(entry).post_norm,
                    act<float>(exchange.out), nullptr, step.rows, p_.fused.cols(exchange.in),
                    exchange.norm->eps, exchange.scale, exchange.keep, entry.dependent},
                   stream_);
}

// What launches of delta nets and of state spaces share.
template <class Launch, class Layer>
Launch StepOps::state_launch(const Step& step, const StepEntry& entry, const Layer& layer) const {
  const LoadedOp& weights = loaded(entry);
  Launch launch = {};
  launch.shape = p_.fused.shape(layer);
  launch.in = act(layer.in);
  launch.convolved = act(layer.convolved);
  launch.out = act(layer.out);
  launch.conv = weights.conv;
  launch.rate = weights.rate;
  launch.bias = weights.bias;
  launch.norm = weights.norm;
  launch.norm_eps = layer.norm_eps;
  launch.log_rate = layer.log_rate;
  launch.rows = step.rows;
  launch.sequences = step.sequences;
  launch.step = p_.step.table();
  launch.states = layer_states(layer.index);
  launch.slot_floats = p_.sizes.slot_floats;
  launch.dependent = entry.dependent;
  return launch;
}

void StepOps::launch(const Step& step, const StepEntry& entry, const DeltaEntry& net) {
  auto launch = state_launch<DeltaLaunch>(step, entry, op<FusedDelta>(entry));
  launch.factors = memory_.delta_factors.as<float>();
  cuda::launch(*net.kernel, launch, stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const SpaceEntry& space) {
  auto launch = state_launch<SpaceLaunch>(step, entry, op<FusedSpace>(entry));
  launch.conv_bias = loaded(entry).conv_bias;
  launch.skip = loaded(entry).skip;
  cuda::launch(*space.kernel, launch, stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const ShortConvEntry& kind) {
  const auto& conv = op<FusedShortConv>(entry);
  ShortConvLaunch launch = {};
  launch.type = p_.fused.type;
  launch.in = act(conv.in);
  launch.out = act(conv.out);
  launch.conv = loaded(entry).conv;
  launch.columns = conv.columns;
  launch.cols = p_.fused.cols(conv.out);
  launch.row_numbers = p_.fused.cols(conv.in);
  launch.taps = conv.taps;
  launch.rows = step.rows;
  launch.sequences = step.sequences;
  launch.one_row_each = !kind.keeps;
  launch.step = p_.step.table();
  launch.states = layer_states(conv.index);
  launch.slot_floats = p_.sizes.slot_floats;
  launch.dependent = entry.dependent;
  launch_short_conv(launch, stream_);
  if (kind.keeps) launch_short_conv_keep(launch, stream_);
}

void StepOps::launch(const Step& step, const StepEntry& entry, const HostEntry& host) {
  p_.host->send(entry.op, step.rows);
  p_.host->receive(entry.op, step.rows);
  // At once: loading the next kernel may wait for the one that waits for the host.
  if (!is_captured()) serve(entry, step.rows);
  if (host.copy) {
    const auto& linear = op<FusedLinear>(entry);
    launch_to_type(p_.fused.type, act<float>(linear.out), act(p_.fused.copy),
                   step.rows * p_.fused.cols(linear.out), stream_);
  }
}

void StepOps::launch(const Step& step, const StepEntry& entry, const HostExpertsEntry&) {
  p_.host->receive_sum(entry.op, step.rows, memory_.experts.moves.as<int32_t>());
  if (!is_captured()) serve(entry, step.rows);
}

bool StepOps::is_captured() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  SKALD_CUDA(cudaStreamIsCapturing(stream_, &status));
  return status != cudaStreamCaptureStatusNone;
}

void StepOps::serve(const StepEntry& entry, int rows) {
  const bool chosen = std::holds_alternative<HostExpertsEntry>(entry.kind);
  if (chosen || std::holds_alternative<HostEntry>(entry.kind)) {
    p_.host->serve(entry.op, rows, chosen);
  }
}

void StepOps::serve(const Rows& rows) {
  try {
    for (const StepEntry& entry : plan(kind(rows)).entries) serve(entry, rows.count);
  } catch (...) {
    p_.host->abort();
    throw;
  }
}

void StepOps::observe(const FusedOp& op, int rows) {
  const ActId out = std::visit(
      Overloaded{[](const RowGate& o) { return o.x; }, [](const auto& o) { return o.out; }}, op.op);
  const auto* linear = std::get_if<FusedLinear>(&op.op);
  if (out == p_.fused.qkv || out == p_.fused.delta ||
      (linear && linear->epilogue == Epilogue::Logits))
    return;
  const size_t count = static_cast<size_t>(rows * p_.fused.cols(out));
  const bool floats = p_.fused.float_result(op).has_value();
  const size_t element = floats ? 4 : static_cast<size_t>(p_.fused.element);
  std::vector<std::byte> raw(count * element);
  SKALD_CUDA(
      cudaMemcpyAsync(raw.data(), act<void>(out), raw.size(), cudaMemcpyDeviceToHost, stream_));
  SKALD_CUDA(cudaStreamSynchronize(stream_));
  std::vector<float> values(count);
  info(floats ? DType::F32 : p_.fused.type)
      .decode_row(raw.data(), values.data(), static_cast<int64_t>(count));
  p_.observer({op.last, p_.fused.program.act(out).name, values, p_.fused.cols(out)});
}

}  // namespace skald::cuda
