#include "cuda/fuse.h"

#include "engine/error.h"
#include "engine/overloaded.h"

namespace skald::cuda {
namespace {

// What of an op the kernels leave out, or "".
std::string_view unknown_part(const Program& program, const Op& op) {
  const auto plus = [&](WeightId id) {
    return program.weight(id).plus == 0 ? "" : "norms whose weights lack a 1";
  };
  return std::visit(
      Overloaded{
          [](const Embed& o) { return o.scale == 1 ? "" : "embeddings with a scale"; },
          [&](const RmsNorm& o) { return plus(o.weight); },
          [](const HeadNorm&) { return "norms of single heads"; },
          [](const Experts&) { return "routed experts"; },
          [&](const Rope& o) {
            const RopeSpec& spec = program.ropes[static_cast<size_t>(o.spec)];
            return spec.scale == 1 ? "" : "rotations with a scale";
          },
          [](const Attention& o) { return o.spec.softcap == 0 ? "" : "capped attention scores"; },
          [](const Add& o) { return o.scale == 1 ? "" : "sums with a scale"; },
          [](const Logits& o) {
            return o.scale == 1 && o.softcap == 0 ? "" : "logits with a scale or a cap";
          },
          [](const auto&) { return ""; },
      },
      op);
}

class Fuser {
 public:
  Fuser(const Program& program, ActId qkv) : ops_(program.ops), qkv_(qkv) {
    for (size_t i = 0; i < ops_.size(); ++i) {
      const std::string_view part = unknown_part(program, ops_[i]);
      if (part.empty()) continue;
      fail(Exit::Failed, "CUDA has no kernel for ", part, ", which op ", i, " of this model, ",
           op_name(ops_[i]), ", needs; use --device cpu");
    }
  }

  std::vector<FusedOp> run() {
    while (at_ < ops_.size()) {
      if (const auto* embed = get<Embed>(at_)) {
        emit(*embed, 1);
      } else if (!qkv_attention() && !linear_group()) {
        fail(Exit::Failed, "CUDA has no kernel for op ", at_, ", ", op_name(ops_[at_]),
             ", where it stands in this model; use --device cpu");
      }
    }
    return std::move(fused_);
  }

 private:
  template <class T>
  const T* get(size_t index) const {
    return index < ops_.size() ? std::get_if<T>(&ops_[index]) : nullptr;
  }

  template <class T>
  void emit(T op, size_t consumed) {
    at_ += consumed;
    fused_.push_back({std::move(op), at_ - 1});
  }

  // norm, q, k, v, rope q, rope k, attention
  bool qkv_attention() {
    const auto* norm = get<RmsNorm>(at_);
    const size_t first = at_ + (norm ? 1 : 0);
    const Linear* parts[] = {get<Linear>(first), get<Linear>(first + 1), get<Linear>(first + 2)};
    if (!parts[0] || !parts[1] || !parts[2]) return false;
    const auto* rope_q = get<Rope>(first + 3);
    const auto* rope_k = get<Rope>(first + 4);
    const auto* attention = get<Attention>(first + (rope_q && rope_k ? 5 : 3));
    if (!attention || attention->q != parts[0]->out || attention->k != parts[1]->out ||
        attention->v != parts[2]->out || (norm && norm->out != parts[0]->in)) {
      return false;
    }
    FusedLinear linear;
    if (norm) linear.norm = *norm;
    linear.in = norm ? norm->in : parts[0]->in;
    linear.out = qkv_;
    for (const Linear* part : parts) {
      linear.parts.push_back(part->weight);
      linear.biases.push_back(part->bias);
    }
    emit(std::move(linear), (norm ? 1 : 0) + 3);
    FusedAttention fused{attention->out, qkv_, attention->layer, attention->spec, {}};
    if (rope_q && rope_k) fused.rope = rope_q->spec;
    emit(fused, rope_q && rope_k ? 3 : 1);
    return true;
  }

  // [norm] linear [linear gated_act | add], or [norm] logits
  bool linear_group() {
    const auto* norm = get<RmsNorm>(at_);
    const size_t first = at_ + (norm ? 1 : 0);
    FusedLinear fused;
    if (norm) fused.norm = *norm;
    if (const auto* logits = get<Logits>(first)) {
      fused.in = norm ? norm->in : logits->in;
      fused.out = logits->in;
      fused.parts = {logits->weight};
      fused.biases = {WeightId::None};
      fused.epilogue = Epilogue::Logits;
      emit(std::move(fused), first + 1 - at_);
      return true;
    }
    const auto* linear = get<Linear>(first);
    if (!linear || (norm && norm->out != linear->in)) return false;
    fused.in = norm ? norm->in : linear->in;
    fused.out = linear->out;
    fused.parts = {linear->weight};
    fused.biases = {linear->bias};

    const auto* up = get<Linear>(first + 1);
    const auto* gated = get<GatedAct>(first + 2);
    const auto* add = get<Add>(first + 1);
    size_t consumed = first + 1 - at_;
    if (up && gated && gated->gate == linear->out && gated->up == up->out) {
      fused.parts.push_back(up->weight);
      fused.biases.push_back(up->bias);
      fused.out = gated->out;
      fused.epilogue = Epilogue::Gated;
      fused.activation = gated->activation;
      consumed += 2;
    } else if (add && add->y == linear->out) {
      fused.out = add->x;
      fused.epilogue = Epilogue::AddTo;
      consumed += 1;
    }
    emit(std::move(fused), consumed);
    return true;
  }

  const std::vector<Op>& ops_;
  ActId qkv_;
  size_t at_ = 0;
  std::vector<FusedOp> fused_;
};

}  // namespace

std::vector<FusedOp> fuse(const Program& program, ActId qkv) { return Fuser(program, qkv).run(); }

}  // namespace skald::cuda
