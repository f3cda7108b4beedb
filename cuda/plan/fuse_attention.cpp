// Fuses attention and the products before it.
#include "cuda/plan/fuser.h"
#include "cuda/plan/head_rows.h"

namespace skald::cuda {
namespace {

// True if the attention kernels can norm the values too: they do so together with the heads of
// queries and keys, with the same eps and without weights.
bool norms_values(const HeadNorm& norm, ActId v, const std::optional<QkNorm>& others) {
  return norm.x == v && norm.weight == WeightId::None && others && !others->whole &&
         others->eps == norm.eps;
}

}  // namespace

std::optional<QkNorm> Fuser::qk_norm(size_t index, ActId q, ActId k) const {
  const auto *heads_q = get<HeadNorm>(index), *heads_k = get<HeadNorm>(index + 1);
  if (heads_q && heads_k && heads_q->x == q && heads_k->x == k && heads_q->eps == heads_k->eps) {
    return QkNorm{heads_q->weight, heads_k->weight, heads_q->eps, false};
  }
  const auto *all_q = get<Norm>(index), *all_k = get<Norm>(index + 1);
  const auto in_place = [](const Norm* norm, ActId x) {
    return norm && norm->kind == NormKind::Rms && norm->in == x && norm->out == x;
  };
  if (in_place(all_q, q) && in_place(all_k, k) && all_q->eps == all_k->eps) {
    return QkNorm{all_q->weight, all_k->weight, all_q->eps, true};
  }
  return {};
}

std::optional<Fuser::GatedQueries> Fuser::gated_queries(size_t index) const {
  const GatedQueries all = {get<Linear>(index), get<HeadPart>(index + 1), get<HeadPart>(index + 2)};
  if (!all.linear || !all.query || !all.gate || all.linear->bias != WeightId::None) return {};
  const HeadPart &query = *all.query, &gate = *all.gate;
  const bool halves = query.in == all.linear->out && gate.in == query.in &&
                      query.heads == gate.heads && query.cols == gate.cols && query.first == 0 &&
                      gate.first == query.cols && query.to == 0 && gate.to == 0 &&
                      !read_after(index + 2, query.in);
  const TensorView& view = program_.weight(all.linear->weight).view;
  if (!halves || view.rows != int64_t{2} * query.heads * query.cols) return {};
  return all;
}

Linear Fuser::split(const GatedQueries& all, const Norm* norm) {
  const auto rows = [&](const HeadPart& part) {
    const HeadRowsOf of = {part.heads, part.cols, part.first};
    return add_head_rows(program_, all.linear->weight, of, readers_);
  };
  FusedLinear gates;
  take_input(norm, all.linear->in, gates);
  gates.out = all.gate->out;
  gates.parts = {rows(*all.gate)};
  gates.biases = {WeightId::None};
  const Linear queries = {all.query->out, all.linear->in, rows(*all.query), WeightId::None};
  emit(std::move(gates), norm ? 4 : 3);
  return queries;
}

bool Fuser::qkv_attention() {
  const Norm* norm = stream_norm(at_);
  size_t first = at_ + (norm ? 1 : 0);
  const std::optional<GatedQueries> gated = gated_queries(first);
  if (gated) first += 2;
  std::vector<const Linear*> parts = {get<Linear>(first), get<Linear>(first + 1)};
  if (gated) parts[0] = gated->linear;
  // Gates of attention's result that have a product of their own, behind that of q.
  const Linear* gates = parts[1];
  if (gated || !get<Linear>(first + 2) || !get<Linear>(first + 3)) gates = nullptr;
  if (gates) parts[1] = get<Linear>(++first + 1);
  const std::optional<ActId> kept = gated   ? std::optional(gated->gate->out)
                                    : gates ? std::optional(gates->out)
                                            : std::nullopt;
  if (!parts[0] || !parts[1]) return false;
  const auto* copy = get<HeadPart>(first + 2);
  const auto* values = get<Linear>(first + 2);
  if (copy && !copies_all(*copy, parts[1]->out)) return false;
  if (!copy && (!values || values->in != parts[0]->in)) return false;
  if (values) parts.push_back(values);
  const ActId v = copy ? copy->out : values->out;
  const ActId in = parts[0]->in, q = gated ? gated->query->out : parts[0]->out;
  const ActId k = parts[1]->out;
  size_t next = first + 3;
  std::optional<QkNorm> heads_norm = qk_norm(next, q, k);
  if (heads_norm) next += 2;
  const auto* v_norm = get<HeadNorm>(next);
  if (v_norm && !norms_values(*v_norm, v, heads_norm)) return false;
  if (v_norm) ++next;
  const auto *rope_q = get<Rope>(next), *rope_k = get<Rope>(next + 1);
  const bool ropes = rope_q && rope_k && rope_q->x == q && rope_k->x == k;
  if (ropes) next += 2;
  if (ropes && !heads_norm) {
    heads_norm = qk_norm(next, q, k);
    if (heads_norm && heads_norm->whole) return false;
    if (heads_norm) {
      heads_norm->after_rope = true;
      next += 2;
    }
  }
  const auto* attention = get<Attention>(next);
  if (!attention || !attention->appends || attention->q != q || attention->k != k ||
      attention->v != v || parts[1]->in != in || (norm && norm->out != in) ||
      (gates && gates->in != in) || (ropes && rope_q->spec != rope_k->spec) ||
      !absorbs(at_, next, attention->out, kept)) {
    return false;
  }
  Linear queries;
  if (gated) {
    queries = split(*gated, norm);
    parts[0] = &queries;
  }
  if (gates) {
    FusedLinear own;
    take_input(norm, in, own);
    own.out = gates->out;
    own.parts = {gates->weight};
    own.biases = {gates->bias};
    emit(std::move(own), first + 1 - at_);
  }
  FusedLinear linear;
  take_input(norm, in, linear);
  linear.out = buffers_.qkv;
  for (const Linear* part : parts) {
    linear.parts.push_back(part->weight);
    linear.biases.push_back(part->bias);
  }
  emit(std::move(linear), first + 3 - at_);
  FusedAttention fused{attention->out, buffers_.qkv, attention->layer, attention->spec, {}, {}};
  if (ropes) fused.rope = rope_q->spec;
  fused.norm = heads_norm;
  fused.sinks = attention->sinks;
  fused.values_are_keys = copy;
  fused.v_norm = v_norm;
  emit(fused, next + 1 - at_);
  return true;
}

bool Fuser::copies_all(const HeadPart& copy, ActId from) const {
  return copy.in == from && copy.first == 0 && copy.to == 0 &&
         int64_t{copy.heads} * copy.cols == program_.act(from).cols;
}

bool Fuser::reading_attention() {
  const Norm* norm = stream_norm(at_);
  const size_t first = at_ + (norm ? 1 : 0);
  const auto* product = get<Linear>(first);
  size_t next = first + 1;
  const auto* heads = get<HeadNorm>(next);
  if (heads) ++next;
  const auto* rope = get<Rope>(next);
  if (rope) ++next;
  const auto* attention = get<Attention>(next);
  if (!product || !attention || attention->appends || attention->q != product->out ||
      (heads && heads->x != product->out) || (rope && rope->x != product->out) ||
      (norm && norm->out != product->in) || !absorbs(at_, next, attention->out)) {
    return false;
  }
  const FusedAttention* source = nullptr;
  for (const FusedOp& op : fused_) {
    const auto* earlier = std::get_if<FusedAttention>(&op.op);
    if (earlier && earlier->appends && earlier->layer == attention->layer) source = earlier;
  }
  if (!source) return false;
  FusedAttention fused{attention->out, buffers_.qkv, attention->layer, attention->spec, {}, {}};
  if (rope) fused.rope = rope->spec;
  if (heads) fused.norm = QkNorm{heads->weight, WeightId::None, heads->eps, false};
  fused.sinks = attention->sinks;
  fused.appends = false;
  fused.v_norm = source->v_norm;
  FusedLinear linear;
  take_input(norm, product->in, linear);
  linear.out = buffers_.qkv;
  linear.parts = {product->weight};
  linear.biases = {product->bias};
  emit(std::move(linear), first + 1 - at_);
  emit(fused, next + 1 - at_);
  return true;
}

}  // namespace skald::cuda
