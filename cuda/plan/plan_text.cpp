#include "cuda/plan/plan_text.h"

#include "engine/base/error.h"
#include "engine/base/overloaded.h"

namespace skald::cuda {

std::string_view edge_name(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::Prepared:
      return "prepared rows";
    case EdgeKind::Carried:
      return "carried rows";
    case EdgeKind::SharedActivations:
      return "shared activations";
    case EdgeKind::Signal:
      return "signal";
    case EdgeKind::LateStart:
      return "late start";
    case EdgeKind::Beside:
      break;
  }
  return "beside one another";
}

std::string entry_text(const FusedProgram& fused, const StepEntry& entry) {
  const auto text = Overloaded{
      [](const EmbedEntry&) { return std::string("embed"); },
      [](const GivenEntry&) { return std::string("copy_part"); },
      [](const ToTypeEntry&) { return std::string("to_type"); },
      [](const NormEntry& norm) {
        return std::string(norm.kind == NormKind::Rms ? "rms_norm" : "layer_norm");
      },
      [](const RmsNormEntry&) { return std::string("rms_norm"); },
      [](const ProductEntry& product) {
        const bool copy = product.kernel->uses_copy && product.copy;
        return copy ? std::string("gemm_cublas (copy)") : std::string(product.kernel->name);
      },
      [](const GateEntry&) { return std::string("gate"); },
      [](const BiasEntry& bias) { return std::string(bias.activates ? "activate" : "add_bias"); },
      [](const RowGateEntry&) { return std::string("row_gate"); },
      [](const PostNormEntry&) { return std::string("post_norm"); },
      [](const CapEntry&) { return std::string("cap_logits"); },
      [](const GatherEntry&) { return std::string("all_gather"); },
      [](const QkNormEntry&) { return std::string("qk_norm"); },
      [&](const RopeAppendEntry&) {
        const auto& attention = std::get<FusedAttention>(fused.ops[entry.op].op);
        const bool norms = attention.norm && !attention.norm->whole;
        return concat(norms ? "norm_rope" : "rope", attention.appends ? "_append" : "");
      },
      [](const AttentionEntry& attention) { return std::string(attention.kernel->name); },
      [](const DeltaEntry& net) { return std::string(net.kernel->name); },
      [](const SpaceEntry& space) { return std::string(space.kernel->name); },
      [](const ShortConvEntry& conv) {
        return std::string(conv.keeps ? "short_conv + short_conv_keep" : "short_conv");
      },
      [](const GatedActEntry&) { return std::string("gated_act"); },
      [](const GatedPartEntry&) { return std::string("gated_part"); },
      [](const PartEntry&) { return std::string("copy_part"); },
      [](const BufferNormEntry&) { return std::string("qk_norm"); },
      [](const HeadProductsEntry&) { return std::string("head_products"); },
      [](const SumOfNormsEntry&) { return std::string("sum_of_norms"); },
      [&](const ExchangeEntry&) {
        const auto& exchange = std::get<FusedExchange>(fused.ops[entry.op].op);
        return std::string(exchange.norm ? "all_reduce + post_norm" : "all_reduce");
      },
      [](const EncodeCacheEntry&) { return std::string("encode_cache"); },
      [](const DecodeCacheEntry&) { return std::string("decode_cache"); },
      [](const RouteEntry&) { return std::string("route"); },
      [](const SortChoicesEntry&) { return std::string("sort_choices"); },
      [](const ExpertsEntry& experts) {
        return concat(experts.routes ? "router in " : "", experts.kernel->name,
                      experts.shape.sums ? " (sum)" : "", experts.in_place ? " (in place)" : "",
                      experts.shape.with_shared && experts.shape.sums ? ", shared expert" : "");
      },
      [](const ExpertsGateEntry&) { return std::string("gate"); },
      [](const PlaceRowsEntry&) { return std::string("place_rows"); },
      [](const CombineEntry&) { return std::string("combine"); },
      [](const CopyEntry&) { return std::string(); },  // belongs to another op
      [](const AwaitEntry&) { return std::string("copy"); },
      [](const HostEntry&) { return std::string("CPU"); },
      [](const CacheEntry&) { return std::string("choose_slots + move_experts"); },
      [](const HostExpertsEntry&) { return std::string("CPU"); }};
  return std::visit(text, entry.kind);
}

std::string launches_text(const FusedProgram& fused, const StepPlan& plan, size_t op) {
  std::string all, last;
  size_t last_kind = std::variant_npos;
  for (const StepEntry& entry : plan.entries) {
    if (entry.op != op) continue;
    const std::string text = entry_text(fused, entry);
    if (text.empty()) continue;
    const bool follows = entry.kind.index() == last_kind;
    if (follows && text == last) continue;
    const bool piece = follows && std::holds_alternative<ProductEntry>(entry.kind);
    all += concat(all.empty() ? "" : piece ? ", " : " + ", text);
    last = text;
    last_kind = entry.kind.index();
  }
  return all;
}

}  // namespace skald::cuda
