#include "models/families/shared/blocks.h"

#include "engine/base/error.h"

namespace skald {
namespace {

std::string layer_name(int layer, std::string_view part) {
  return concat("blk.", layer, ".", part);
}

}  // namespace

Blocks::Blocks(const ModelConfig& c, const WeightFile& file)
    : config_(c), file_(file), builder_(file) {
  x_ = builder_.act("x", c.dim);
  h_ = builder_.act("h", c.dim);
  rope_ = window_rope_ = builder_.rope(c.rope);
  if (!c.window_rope.inv_freq.empty()) window_rope_ = builder_.rope(c.window_rope);
}

void Blocks::make_attention_acts() {
  if (attended_ != ActId{}) return;  // buffer 0 is x
  const int64_t q_dim = int64_t{config_.heads} * config_.head_dim;
  const int64_t kv_dim = int64_t{config_.kv_heads} * config_.head_dim;
  q_ = builder_.act("q", q_dim);
  k_ = builder_.act("k", kv_dim);
  v_ = builder_.act("v", kv_dim);
  attended_ = builder_.act("attended", q_dim);
}

int Blocks::rope_of(int layer) const {
  return config_.window_of(layer) != 0 ? window_rope_ : rope_;
}

void Blocks::embed() {
  embedding_ = builder_.weight("token_embd.weight", config_.vocab, config_.dim);
  builder_.add(Embed{x_, embedding_, config_.embedding_scale});
}

void Blocks::norm(ActId out, ActId in, int layer, std::string_view weight) {
  builder_.add(norm_op(out, in, layer_name(layer, weight)));
}

Norm Blocks::norm_op(ActId out, ActId in, const std::string& name, std::optional<float> plus) {
  const ModelConfig& c = config_;
  const WeightId weight = builder_.norm_weight(name + ".weight", c.dim, plus.value_or(c.norm_plus));
  Norm op{out, in, weight, c.norm_eps, c.norm};
  if (c.norm_bias) op.bias = builder_.weight(name + ".bias", 1, c.dim);
  return op;
}

void Blocks::linear(ActId out, ActId in, int layer, std::string_view name, bool bias) {
  const std::string full = layer_name(layer, name);
  const int64_t rows = builder_.cols(out);
  const WeightId weight = builder_.weight(full + ".weight", rows, builder_.cols(in));
  builder_.add(
      Linear{out, in, weight, bias ? builder_.weight(full + ".bias", 1, rows) : WeightId::None});
}

// Handles files that store the matrices of one input as a single fused matrix, row below row.
// Returns false if this file does not.
bool Blocks::fused(std::string_view part, int layer, ActId in, std::initializer_list<ActId> outs) {
  const std::string name = layer_name(layer, part);
  int64_t rows = 0, first = 0;
  for (ActId out : outs) rows += builder_.cols(out);
  const Tensor* tensor = file_.find(name + ".weight");
  // ffn_up names the up matrix, or the fused matrix of gate and up.
  if (!tensor || (part.starts_with("ffn_up") && tensor->view.rows != rows)) return false;
  if (file_.find(name + ".bias")) {
    fail(Exit::Model, file_.path(), ": tensor '", name, ".bias' is not supported");
  }
  for (ActId out : outs) {
    const int64_t count = builder_.cols(out);
    const WeightId weight =
        builder_.weight_rows(name + ".weight", rows, builder_.cols(in), first, count);
    builder_.add(Linear{out, in, weight, WeightId::None});
    first += count;
  }
  return true;
}

void Blocks::qk_norm(ActId act, int heads, int layer, std::string_view weight) {
  const ModelConfig& c = config_;
  const std::string name = layer_name(layer, weight) + ".weight";
  if (c.qk_norm == QkNorm::Heads) {
    const bool bare = c.bare_query_scale != 0 && !file_.find(name);
    const WeightId id = bare ? WeightId::None : builder_.norm_weight(name, c.head_dim, c.norm_plus);
    builder_.add(HeadNorm{act, id, heads, c.head_dim, c.norm_eps});
  } else if (c.qk_norm == QkNorm::Whole) {
    const WeightId id = builder_.norm_weight(name, builder_.cols(act), c.norm_plus);
    builder_.add(Norm{act, act, id, c.norm_eps});
  }
}

void Blocks::queries(int layer, ActId in) {
  const ModelConfig& c = config_;
  if (!c.attention_gate) return linear(q_, in, layer, "attn_q", c.attention_bias);
  const int64_t q_dim = builder_.cols(q_);
  if (!gates_) gates_ = builder_.act("attention_gate", q_dim);
  if (file_.find(layer_name(layer, "attn_gate.weight"))) {
    linear(q_, in, layer, "attn_q", c.attention_bias);
    return linear(*gates_, in, layer, "attn_gate", false);
  }
  if (!queries_) queries_ = builder_.act("q_and_gate", 2 * q_dim);
  linear(*queries_, in, layer, "attn_q", c.attention_bias);
  builder_.add(HeadPart{q_, *queries_, c.heads, c.head_dim});
  builder_.add(HeadPart{*gates_, *queries_, c.heads, c.head_dim, c.head_dim});
}

void Blocks::attention(int layer, ActId in) {
  const ModelConfig& c = config_;
  make_attention_acts();
  if (c.attention_gate || !fused("attn_qkv", layer, in, {q_, k_, v_})) {
    queries(layer, in);
    linear(k_, in, layer, "attn_k", c.attention_bias);
    linear(v_, in, layer, "attn_v", c.attention_bias);
  }
  const auto norms = [&] {
    qk_norm(q_, c.heads, layer, "attn_q_norm");
    qk_norm(k_, c.kv_heads, layer, "attn_k_norm");
  };
  if (!c.norm_after_rope) norms();

  AttentionSpec spec{c.heads, c.kv_heads, c.head_dim};
  spec.scale = c.scale_of_scores();
  if (c.bare_query_scale != 0) spec.scale *= c.bare_query_scale;
  spec.window = c.window_of(layer);
  spec.softcap = c.attention_softcap;
  spec.growth = c.query_growth;
  if (c.rotates(layer)) {
    const int rope = rope_of(layer);
    builder_.add(Rope{q_, c.heads, c.head_dim, rope});
    builder_.add(Rope{k_, c.kv_heads, c.head_dim, rope});
  }
  if (c.norm_after_rope) norms();
  const int kv = builder_.kv_layer({c.kv_heads, c.head_dim});
  Attention op{attended_, q_, k_, v_, kv, spec};
  if (c.attention_sinks) {
    op.sinks = builder_.weight(layer_name(layer, "attn_sinks.weight"), 1, c.heads);
  }
  builder_.add(op);
  if (c.attention_gate) {
    builder_.add(GatedAct{attended_, *gates_, attended_, Activation::Sigmoid});
  }
  linear(h_, attended_, layer, "attn_output", c.attention_output_bias);
}

void Blocks::mlp(int layer, ActId in) {
  gate(layer, in);
  down(layer);
}

void Blocks::gate(int layer, ActId in) {
  const ModelConfig& c = config_;
  if (!mlp_)
    mlp_ = {"", c.mlp_bias, builder_.act("gate", c.ffn_dim), builder_.act("up", c.ffn_dim)};
  gate(layer, in, *mlp_);
}

void Blocks::down(int layer) { down(layer, *mlp_); }

void Blocks::gate(int layer, ActId in, const FeedForward& part) {
  const std::string up_name = concat("ffn_up", part.suffix);
  if (!config_.gated_mlp) {
    linear(part.up, in, layer, up_name, part.bias);
    builder_.add(Activate{part.gate, part.up, config_.activation});
    return;
  }
  if (!fused(up_name, layer, in, {part.gate, part.up})) {
    linear(part.gate, in, layer, concat("ffn_gate", part.suffix), part.bias);
    linear(part.up, in, layer, up_name, part.bias);
  }
  builder_.add(GatedAct{part.gate, part.gate, part.up, config_.activation});
}

void Blocks::down(int layer, const FeedForward& part) {
  linear(h_, part.gate, layer, concat("ffn_down", part.suffix), part.bias);
}

ActId Blocks::routed() {
  if (!routed_) routed_ = builder_.act("routed", config_.dim);
  return *routed_;
}

// The weight "blk.0.ffn_gate_exps.weight" of all experts, or "blk.0.ffn_gate.7.weight" of one
// expert in older files.
WeightId Blocks::expert_weights(int layer, std::string_view part, int64_t rows, int64_t cols) {
  const std::string name = layer_name(layer, part);
  for (const char* bias : {"_exps.bias", ".0.bias"}) {
    if (config_.experts.bias || !file_.find(name + bias)) continue;
    fail(Exit::Model, file_.path(), ": tensor '", name, bias, "' is not supported");
  }
  return builder_.expert_weights(
      name + "_exps.weight", [&](int e) { return concat(name, ".", e, ".weight"); },
      config_.experts.count, rows, cols);
}

void Blocks::experts(int layer, ActId in) { experts(layer, h_, in, in); }

void Blocks::experts(int layer, ActId out, ActId in, ActId route) {
  const ExpertsConfig& e = config_.experts;
  const int64_t dim = config_.dim;
  Experts op{out, in, route};
  op.router = builder_.weight(layer_name(layer, "ffn_gate_inp.weight"), e.count, dim);
  const std::string fused_name = layer_name(layer, "ffn_gate_up_exps.weight");
  if (file_.find(fused_name)) {
    const int64_t both = 2 * e.ffn_dim;
    op.gate = builder_.expert_rows(fused_name, e.count, both, dim, 0, e.ffn_dim);
    op.up = builder_.expert_rows(fused_name, e.count, both, dim, e.ffn_dim, e.ffn_dim);
  } else {
    op.gate =
        config_.gated_mlp ? expert_weights(layer, "ffn_gate", e.ffn_dim, dim) : WeightId::None;
    op.up = expert_weights(layer, "ffn_up", e.ffn_dim, dim);
  }
  op.down = expert_weights(layer, "ffn_down", dim, e.ffn_dim);
  op.spec = {e.count, e.used,         e.normalized, config_.activation, e.gating,
             e.scale, e.router_scale, e.groups,     e.used_groups};
  if (e.expert_scale) {
    op.expert_scale = builder_.weight(layer_name(layer, "ffn_down_exps.scale"), 1, e.count);
  }
  if (e.choice_bias) {
    op.choice_bias = builder_.weight(layer_name(layer, "exp_probs_b.bias"), 1, e.count);
  }
  if (e.bias) {
    const auto bias = [&](std::string_view part, int64_t rows, int64_t cols) {
      return builder_.weight(layer_name(layer, part), rows, cols);
    };
    op.router_bias = bias("ffn_gate_inp.bias", 1, e.count);
    op.gate_bias = bias("ffn_gate_exps.bias", e.count, e.ffn_dim);
    op.up_bias = bias("ffn_up_exps.bias", e.count, e.ffn_dim);
    op.down_bias = bias("ffn_down_exps.bias", e.count, dim);
  }
  builder_.add(op);
}

void Blocks::shared_expert(int layer, ActId in) {
  const ExpertsConfig& e = config_.experts;
  if (!shared_) {
    shared_ = {"_shexp", false, builder_.act("shared_gate", e.shared_dim),
               builder_.act("shared_up", e.shared_dim)};
  }
  gate(layer, in, *shared_);
  if (e.shared_gate) {
    const std::string name = layer_name(layer, "ffn_gate_inp_shexp.weight");
    builder_.add(RowGate{shared_->gate, in, builder_.weight(name, 1, config_.dim)});
  }
  down(layer, *shared_);
}

void Blocks::feed_forward(int layer, std::string_view weight) {
  const bool has_experts = config_.has_experts(layer);
  const ActId in = has_experts ? routed() : h_;
  norm(in, x_, layer, weight);
  if (!has_experts) {
    mlp(layer, in);
  } else {
    experts(layer, in);
    if (config_.experts.shared_dim > 0) {
      add();
      shared_expert(layer, in);
    }
  }
  add();
}

void Blocks::add() { builder_.add(Add{x_, h_, config_.residual_scale}); }

void Blocks::norm_stream() { builder_.add(norm_op(x_, x_, "output_norm")); }

Program Blocks::finish() && { return std::move(*this).finish(LastNorm{}); }

Program Blocks::finish(const LastNorm& last) && {
  const ModelConfig& c = config_;
  builder_.add(norm_op(h_, x_, std::string(last.name), last.plus));
  const int64_t rows = last.rows > 0 ? last.rows : c.vocab;
  const WeightId head = c.tied ? embedding_ : builder_.weight("output.weight", rows, c.dim);
  builder_.add(Logits{h_, head, c.logit_scale, c.logit_softcap});
  return std::move(builder_).finish();
}

Program build_norms_after(const ModelConfig& c, const WeightFile& file) {
  Blocks b(c, file);
  b.embed();
  for (int layer = 0; layer < c.layers; ++layer) {
    b.attention(layer, b.x());
    b.norm(b.h(), b.h(), layer, "post_attention_norm");
    b.add();
    b.mlp(layer, b.x());
    b.norm(b.h(), b.h(), layer, "post_ffw_norm");
    b.add();
  }
  return std::move(b).finish();
}

Program build_norms_around(const ModelConfig& c, const WeightFile& file) {
  Blocks b(c, file);
  b.embed();
  for (int layer = 0; layer < c.layers; ++layer) {
    b.norm(b.h(), b.x(), layer, "attn_norm");
    b.attention(layer, b.h());
    b.norm(b.h(), b.h(), layer, "post_attention_norm");
    b.add();
    b.norm(b.h(), b.x(), layer, "ffn_norm");
    b.mlp(layer, b.h());
    b.norm(b.h(), b.h(), layer, "post_ffw_norm");
    b.add();
  }
  return std::move(b).finish();
}

}  // namespace skald
