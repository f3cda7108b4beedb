// Fuses what stands beside the usual halves of a layer: routed experts, and embeddings for each
// layer.
#include "cuda/plan/fuser.h"

namespace skald::cuda {
namespace {

bool norms_in_place(const Norm* norm, ActId x) {
  return norm && norm->kind == NormKind::Rms && norm->in == x && norm->out == x;
}

bool sums(const Add* add, ActId x, ActId y) { return add && add->x == x && add->y == y; }

FusedExperts fused_experts(const Experts& o, const Norm& norm) {
  FusedExperts fused{norm,        {},        o.router,   o.gate,        o.up,
                     o.down,      o.spec,    1,          o.router_bias, o.choice_bias,
                     o.gate_bias, o.up_bias, o.down_bias};
  fused.expert_scale = o.expert_scale;
  return fused;
}

}  // namespace

bool Fuser::routed_experts() {
  const Norm* norm = stream_norm(at_);
  const auto* experts = get<Experts>(at_ + 1);
  const auto* add = get<Add>(at_ + 2);
  if (!norm || norm->kind != NormKind::Rms || !experts || norm->out != experts->in ||
      experts->route != experts->in) {
    return false;
  }
  FusedExperts fused = fused_experts(*experts, *norm);
  if (reduces(at_ + 2, experts->out) && absorbs(at_, at_ + 1, experts->out, norm->out)) {
    fused.out = experts->out;
    fused.adds = false;
    fused.keeps_norm = read_after(at_ + 1, norm->out);
    emit(fused, 2);
    return true;
  }
  if (!sums(add, hidden_, experts->out) || add->keep != 1 ||
      !absorbs(at_, at_ + 2, add->x, norm->out)) {
    return false;
  }
  fused.out = add->x;
  fused.scale = add->scale;
  fused.keeps_norm = read_after(at_ + 2, norm->out);
  emit(fused, 3);
  return true;
}

void Fuser::find_shared_experts() {
  for (size_t i = 0; i < fused_.size(); ++i) {
    auto* experts = std::get_if<FusedExperts>(&fused_[i].op);
    if (experts && experts->keeps_norm && experts->adds) experts->shared_ops = shared_expert(i);
  }
}

size_t Fuser::shared_expert(size_t experts) const {
  const auto& routed = std::get<FusedExperts>(fused_[experts].op);
  if (experts + 2 >= fused_.size()) return 0;
  const auto* gate = std::get_if<FusedLinear>(&fused_[experts + 1].op);
  const auto* factor = std::get_if<RowGate>(&fused_[experts + 2].op);
  const size_t last = experts + (factor ? 3 : 2);
  const auto* down = last < fused_.size() ? std::get_if<FusedLinear>(&fused_[last].op) : nullptr;
  if (!gate || !down) return 0;
  const ActId in = routed.norm.out, gated = gate->out;
  const auto has_bias = [](const std::vector<WeightId>& biases) {
    return std::any_of(biases.begin(), biases.end(),
                       [](WeightId bias) { return bias != WeightId::None; });
  };
  const bool gates = !gate->norm && gate->in == in && gate->epilogue == Epilogue::Gated &&
                     gate->activation == routed.spec.activation;
  const bool factors = !factor || (factor->x == gated && factor->in == in);
  const bool adds = !down->norm && down->in == gated && down->out == routed.out &&
                    down->epilogue == Epilogue::AddTo && !down->post_norm &&
                    down->scale == routed.scale;
  const bool alone = !read_after(fused_[last].last, in) && !read_after(fused_[last].last, gated);
  const bool plain = !has_bias(gate->biases) && !has_bias(down->biases);
  return gates && factors && adds && alone && plain ? last - experts : 0;
}

bool Fuser::experts_beside() {
  const auto* down = get<Linear>(at_);
  const size_t down_reduced = down && reduces(at_ + 1, down->out);
  const size_t routed = at_ + 1 + down_reduced;
  const auto* down_norm = get<Norm>(routed);
  const Norm *route_norm = stream_norm(routed + 1), *norm = stream_norm(routed + 2);
  const auto* experts = get<Experts>(routed + 3);
  const size_t experts_reduced = experts && reduces(routed + 4, experts->out);
  const size_t summed = routed + 4 + experts_reduced;
  const auto* experts_norm = get<Norm>(summed);
  const auto *inner = get<Add>(summed + 1), *outer = get<Add>(summed + 3);
  const auto* sum_norm = get<Norm>(summed + 2);
  if (!down || !route_norm || !norm || !experts || down->in == hidden_ || down->out == hidden_) {
    return false;
  }
  const ActId a = down->out, b = experts->out;
  const bool one_eps = experts_norm && sum_norm && down_norm && norm->eps == route_norm->eps &&
                       sum_norm->eps == down_norm->eps && sum_norm->eps == experts_norm->eps;
  if (!norms_in_place(down_norm, a) || !norms_in_place(experts_norm, b) ||
      !norms_in_place(sum_norm, a) || !one_eps || route_norm->kind != NormKind::Rms ||
      norm->kind != NormKind::Rms || experts->route != route_norm->out ||
      experts->in != norm->out || norm->out == route_norm->out || !sums(inner, a, b) ||
      inner->scale != 1 || inner->keep != 1 || !sums(outer, hidden_, a) ||
      !absorbs(at_, summed + 3, hidden_)) {
    return false;
  }
  FusedLinear linear;
  take_input(nullptr, down->in, linear);
  linear.out = a;
  linear.parts = {down->weight};
  linear.biases = {down->bias};
  linear.epilogue = Epilogue::Floats;
  FusedExperts fused = fused_experts(*experts, *norm);
  fused.out = b;
  fused.route_norm = route_norm->weight;
  fused.adds = false;
  const SumOfNorms sum = {hidden_,
                          a,
                          b,
                          sum_norm->weight,
                          down_norm->weight,
                          experts_norm->weight,
                          sum_norm->eps,
                          outer->scale,
                          outer->keep};
  emit(std::move(linear), 1);
  if (down_reduced) emit(FusedExchange{a, a}, 1);
  emit(fused, 4);  // with the norm of `a`, which SumOfNorms does
  if (experts_reduced) emit(FusedExchange{b, b}, 1);
  emit(sum, 4);
  return true;
}

bool Fuser::embedding_stays(ActId layers, size_t sum) const {
  for (size_t i = at_ + 1; i < ops_.size(); ++i) {
    const std::vector<ActId> inputs = op_inputs(ops_[i]);
    if (i == sum || std::find(inputs.begin(), inputs.end(), layers) == inputs.end()) continue;
    if (!get<HeadPart>(i)) return false;
  }
  return true;
}

bool Fuser::layer_embeddings() {
  const auto* embed = get<Embed>(at_);
  const auto* linear = get<Linear>(at_ + 1);
  const auto* norm = get<HeadNorm>(at_ + 2);
  const auto* add = get<Add>(at_ + 3);
  if (!embed || !linear || linear->in != hidden_ || !norm || norm->x != linear->out ||
      !sums(add, embed->out, linear->out) || embed->out == hidden_ || layer_embeddings_ ||
      !embedding_stays(embed->out, at_ + 3) || read_after(at_ + 3, linear->out)) {
    return false;
  }
  layer_embeddings_ = embed->out;
  emit(*embed, 1);
  FusedLinear fused;
  take_input(nullptr, linear->in, fused);
  fused.out = embed->out;
  fused.parts = {linear->weight};
  fused.biases = {linear->bias};
  fused.epilogue = Epilogue::AddTo;
  fused.scale = add->scale;
  fused.keep = add->keep;
  fused.post_norm = Norm{linear->out, linear->out, norm->weight, norm->eps};
  fused.norm_parts = norm->heads;
  emit(std::move(fused), 3);
  return true;
}

bool Fuser::layer_embedding() {
  const auto* part = get<HeadPart>(at_);
  const auto* linear = get<Linear>(at_ + 1);
  const auto* gated = get<GatedAct>(at_ + 2);
  if (!part || !linear || !gated || part->in != layer_embeddings_ || part->heads != 1 ||
      part->to != 0 || linear->out == hidden_ || linear->in == part->out ||
      gated->gate != linear->out || gated->out != linear->out || gated->up != part->out ||
      program_.act(linear->out).cols != part->cols || !absorbs(at_, at_ + 2, gated->out)) {
    return false;
  }
  FusedLinear fused;
  take_input(nullptr, linear->in, fused);
  fused.out = linear->out;
  fused.parts = {linear->weight};
  fused.biases = {linear->bias};
  const GatedPart gate = {gated->out, part->in, part->first, gated->activation};
  emit(std::move(fused), 2);
  emit(gate, 1);
  return true;
}

}  // namespace skald::cuda
