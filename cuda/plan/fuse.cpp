#include "cuda/plan/fuse.h"

#include <algorithm>

#include "cuda/plan/delta_layer.h"
#include "cuda/plan/head_rows.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

class Fuser {
 public:
  Fuser(Program& program, FusedBuffers buffers)
      : program_(program),
        ops_(program.ops),
        buffers_(buffers),
        hidden_(*op_output(ops_.front())) {}

  Fused run() {
    while (at_ < ops_.size()) {
      if (const auto* embed = get<Embed>(at_)) {
        emit(*embed, 1);
      } else if (!qkv_attention() && !reading_attention() && !delta_net() && !routed_experts() &&
                 !linear_group() && !own_norm() && !row_gate() && !gated_act()) {
        fail(Exit::Failed, "CUDA has no kernel for op ", at_, ", ", op_name(ops_[at_]),
             ", where it stands in this model; use --device cpu");
      }
    }
    return {std::move(fused_), std::move(readers_)};
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

  // True if an op after `last` reads the buffer before another op overwrites it.
  bool read_after(size_t last, ActId buffer) const {
    for (size_t i = last + 1; i < ops_.size(); ++i) {
      const std::vector<ActId> inputs = op_inputs(ops_[i]);
      if (std::find(inputs.begin(), inputs.end(), buffer) != inputs.end()) return true;
      const ActId* out = op_output(ops_[i]);
      if (out && *out == buffer) return false;
    }
    return false;
  }

  // True if the ops from `first` to `last` may become one op that writes `out` and `kept` alone: no
  // later op reads another buffer that they write.
  bool absorbs(size_t first, size_t last, ActId out, std::optional<ActId> kept = {}) const {
    for (size_t i = first; i <= last; ++i) {
      const ActId* written = op_output(ops_[i]);
      if (written && *written != out && *written != kept && read_after(last, *written))
        return false;
    }
    return true;
  }

  // The op at `index` if it is a norm of the residual stream; a fused op can begin with one.
  const Norm* stream_norm(size_t index) const {
    const auto* norm = get<Norm>(index);
    return norm && norm->in == hidden_ && norm->out != hidden_ ? norm : nullptr;
  }

  // A norm that has a kernel of its own. Either several ops read its output, as where attention and
  // feed-forward run in parallel; or it norms the residual stream in place, between two runs of a
  // looped model's layers.
  bool own_norm() {
    const Norm* norm = stream_norm(at_);
    const auto* in_place = get<Norm>(at_);
    if (!norm && in_place && in_place->in == hidden_ && in_place->out == hidden_) norm = in_place;
    if (!norm) return false;
    emit(*norm, 1);
    return true;
  }

  // The norms of q and k at `index`, if they are of the same kind.
  std::optional<QkNorm> qk_norm(size_t index, ActId q, ActId k) const {
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

  // A product whose rows are a query and a gate for each head: the three ops at `index`, if they
  // are that.
  struct GatedQueries {
    const Linear* linear;
    const HeadPart *query, *gate;
  };
  std::optional<GatedQueries> gated_queries(size_t index) const {
    const GatedQueries all = {get<Linear>(index), get<HeadPart>(index + 1),
                              get<HeadPart>(index + 2)};
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

  // The gates' product. Returns the queries' product, which is not emitted.
  Linear split(const GatedQueries& all, const Norm* norm) {
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

  // [norm], q, k, v, [norm q, norm k], [rope q, rope k], attention; or ropes, then norms of heads.
  // The product of q may have the gates of attention's result too. Instead of a product, v may be a
  // copy of k; and its heads may be normed.
  bool qkv_attention() {
    const Norm* norm = stream_norm(at_);
    size_t first = at_ + (norm ? 1 : 0);
    const std::optional<GatedQueries> gated = gated_queries(first);
    if (gated) first += 2;
    std::vector<const Linear*> parts = {get<Linear>(first), get<Linear>(first + 1)};
    if (gated) parts[0] = gated->linear;
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
        (ropes && rope_q->spec != rope_k->spec) ||
        !absorbs(at_, next, attention->out,
                 gated ? std::optional(gated->gate->out) : std::nullopt)) {
      return false;
    }
    Linear queries;
    if (gated) {
      queries = split(*gated, norm);
      parts[0] = &queries;
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

  bool copies_all(const HeadPart& copy, ActId from) const {
    return copy.in == from && copy.first == 0 && copy.to == 0 &&
           int64_t{copy.heads} * copy.cols == program_.act(from).cols;
  }

  // Kernels norm values where they norm the heads of queries and keys, and without weights.
  static bool norms_values(const HeadNorm& norm, ActId v, const std::optional<QkNorm>& others) {
    return norm.x == v && norm.weight == WeightId::None && others && !others->whole &&
           others->eps == norm.eps;
  }

  // [norm], q, [norm q], [rope q], attention on the keys and values of an earlier layer
  bool reading_attention() {
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

  // norm, products, convolution, net, norm of heads, gate
  bool delta_net() {
    const Norm* norm = stream_norm(at_);
    const size_t first = at_ + (norm ? 1 : 0);
    std::optional<DeltaLayer> layer = find_delta_layer(program_, first);
    if (!layer || (norm && norm->out != layer->products_in) ||
        !absorbs(at_, layer->last, layer->net.out, layer->net.convolved)) {
      return false;
    }
    FusedLinear linear;
    take_input(norm, layer->products_in, linear);
    linear.out = layer->net.in = buffers_.delta;
    linear.parts = std::move(layer->parts);
    linear.biases = std::move(layer->biases);
    emit(std::move(linear), layer->products_end - at_);
    layer->net.index = nets_++;
    emit(layer->net, layer->last + 1 - at_);
    return true;
  }

  // norm, experts, add
  bool routed_experts() {
    const Norm* norm = stream_norm(at_);
    const auto* experts = get<Experts>(at_ + 1);
    const auto* add = get<Add>(at_ + 2);
    if (!norm || norm->kind != NormKind::Rms || !experts || !add || norm->out != experts->in ||
        add->x != hidden_ || add->y != experts->out || add->keep != 1 ||
        !absorbs(at_, at_ + 2, add->x, norm->out)) {
      return false;
    }
    emit(FusedExperts{*norm, add->x, experts->router, experts->gate, experts->up, experts->down,
                      experts->spec, add->scale, experts->router_bias, experts->choice_bias,
                      experts->gate_bias, experts->up_bias, experts->down_bias},
         3);
    return true;
  }

  // The product reads `in`, which the norm writes. Without a norm, the product reads a copy of the
  // residual stream in the activations' type, because the residual stream is float32.
  void take_input(const Norm* norm, ActId in, FusedLinear& fused) {
    if (norm) fused.norm = *norm;
    fused.in = norm ? norm->in : in;
    if (fused.norm || in != hidden_) return;
    fused.in = buffers_.copy;
    auto* before = fused_.empty() ? nullptr : std::get_if<FusedLinear>(&fused_.back().op);
    if (before && before->post_norm) {
      before->leaves_copy = true;
    } else {
      fused.makes_copy = true;
    }
  }

  // Both buffers have the activations' type.
  bool row_gate() {
    const auto* gate = get<RowGate>(at_);
    if (!gate || gate->x == hidden_ || gate->in == hidden_) return false;
    emit(*gate, 1);
    return true;
  }

  // Gates one of its inputs in place.
  bool gated_act() {
    const auto* gated = get<GatedAct>(at_);
    if (!gated || gated->out != gated->up || gated->out == hidden_ || gated->gate == hidden_) {
      return false;
    }
    emit(*gated, 1);
    return true;
  }

  // [norm] linear [linear gated_act | activate | [norm] add], or [norm] logits
  bool linear_group() {
    const Norm* norm = stream_norm(at_);
    const size_t first = at_ + (norm ? 1 : 0);
    if (const auto* logits = get<Logits>(first)) {
      if (!norm || norm->out != logits->in) return false;  // the input of such logits is float32
      FusedLinear fused;
      take_input(norm, logits->in, fused);
      fused.out = logits->in;
      fused.parts = {logits->weight};
      fused.biases = {WeightId::None};
      fused.epilogue = Epilogue::Logits;
      fused.scale = logits->scale;
      fused.softcap = logits->softcap;
      emit(std::move(fused), first + 1 - at_);
      return true;
    }
    const auto* linear = get<Linear>(first);
    if (!linear || (norm && norm->out != linear->in)) return false;
    FusedLinear fused;
    fused.parts = {linear->weight};
    fused.biases = {linear->bias};
    fused.out = linear->out;
    size_t last = first;

    const auto* up = get<Linear>(first + 1);
    const auto* gated = get<GatedAct>(first + 2);
    const auto* activate = get<Activate>(first + 1);
    const auto* post_norm = get<Norm>(first + 1);
    const size_t sum = first + (post_norm ? 2 : 1);
    const auto* add = get<Add>(sum);
    if (up && up->in == linear->in && gated && products_gate(gated->activation) &&
        gated->gate == linear->out && gated->up == up->out &&
        absorbs(first, first + 2, gated->out)) {
      fused.parts.push_back(up->weight);
      fused.biases.push_back(up->bias);
      fused.out = gated->out;
      fused.epilogue = Epilogue::Gated;
      fused.activation = gated->activation;
      last = first + 2;
    } else if (activate && activate->in == linear->out &&
               absorbs(first, first + 1, activate->out)) {
      fused.out = activate->out;
      fused.activates = true;
      fused.activation = activate->activation;
      last = first + 1;
    } else if (add && add->x == hidden_ && add->y == (post_norm ? post_norm->out : linear->out) &&
               (!post_norm || (post_norm->in == linear->out && post_norm->kind == NormKind::Rms)) &&
               (post_norm || add->keep == 1) && absorbs(first, sum, add->x)) {
      fused.out = add->x;
      fused.epilogue = Epilogue::AddTo;
      fused.scale = add->scale;
      fused.keep = add->keep;
      if (post_norm) fused.post_norm = *post_norm;
      last = sum;
    }
    const bool into_stream = fused.out == hidden_ && fused.epilogue != Epilogue::AddTo;
    if (into_stream || !absorbs(at_, last, fused.out)) return false;
    take_input(norm, linear->in, fused);
    emit(std::move(fused), last + 1 - at_);
    return true;
  }

  // True if the kernels of products have this activation.
  static bool products_gate(Activation activation) {
    return activation == Activation::Silu || activation == Activation::GeluTanh;
  }

  Program& program_;
  const std::vector<Op>& ops_;
  FusedBuffers buffers_;
  ActId hidden_;  // the residual stream
  size_t at_ = 0;
  int nets_ = 0;
  std::vector<FusedOp> fused_;
  std::vector<std::shared_ptr<const RowReader>> readers_;
};

}  // namespace

Fused fuse(Program& program, FusedBuffers buffers) {
  check(std::holds_alternative<Embed>(program.ops.front()), "the first op embeds");
  refuse_ops_without_kernels(program);
  return Fuser(program, buffers).run();
}

}  // namespace skald::cuda
