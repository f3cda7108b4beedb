// The ops of Gemma 4's layers (gemma4.cpp says what they compute).
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "models/families/gemma.h"
#include "models/families/shared/blocks.h"

namespace skald {
namespace {

// Adds the ops of the layers to Blocks, which has those that all families share.
class Layers {
 public:
  Layers(const ModelConfig& config, const WeightFile& file)
      : config_(config), file_(file), blocks_(config, file), ops_(blocks_.builder()) {}

  Program build() && {
    blocks_.embed();
    if (config_.layer_embedding > 0) embed_for_layers();
    for (int layer = 0; layer < config_.layers; ++layer) {
      attention(layer);
      feed_forward(layer);
      if (config_.layer_embedding > 0) add_embedding(layer);
    }
    return std::move(blocks_).finish();
  }

 private:
  // Layers with a window, or those without.
  struct Kind {
    int kv_heads = 0, head_dim = 0;
    ActId q{}, k{}, v{}, attended{};
    int kv = -1;  // the last layer of the cache; -1: none yet
  };
  struct Width {
    ActId gate, up;
  };

  bool keeps(int layer) const { return layer < config_.layers - config_.shared_kv.layers; }
  WeightId layer_weight(int layer, std::string_view name, int64_t cols) {
    return ops_.weight(concat("blk.", layer, ".", name), 1, cols);
  }

  Kind& kind_of(int layer) {
    const ModelConfig& c = config_;
    const bool full = c.window_of(layer) == 0 && c.full.head_dim > 0;
    std::optional<Kind>& kind = kinds_[full ? 1 : 0];
    if (kind) return *kind;
    kind = Kind();
    kind->kv_heads = full ? c.full.kv_heads : c.kv_heads;
    kind->head_dim = full ? c.full.head_dim : c.head_dim;
    const int64_t q_dim = int64_t{c.heads} * kind->head_dim;
    const int64_t kv_dim = int64_t{kind->kv_heads} * kind->head_dim;
    const std::string end = full ? "_full" : "";
    kind->q = ops_.act("q" + end, q_dim);
    kind->k = ops_.act("k" + end, kv_dim);
    kind->v = ops_.act("v" + end, kv_dim);
    kind->attended = ops_.act("attended" + end, q_dim);
    return *kind;
  }

  void attention(int layer) {
    const ModelConfig& c = config_;
    Kind& kind = kind_of(layer);
    const bool values_are_keys = c.window_of(layer) == 0 && c.full.values_are_keys;
    const ActId h = blocks_.h();
    blocks_.norm(h, blocks_.x(), layer, "attn_norm");
    blocks_.linear(kind.q, h, layer, "attn_q", c.attention_bias);
    if (keeps(layer)) {
      blocks_.linear(kind.k, h, layer, "attn_k", c.attention_bias);
      if (values_are_keys) {
        ops_.add(HeadPart{kind.v, kind.k, kind.kv_heads, kind.head_dim});
      } else {
        blocks_.linear(kind.v, h, layer, "attn_v", c.attention_bias);
      }
    }
    const int rope = blocks_.rope_of(layer);
    const auto norm = [&](ActId act, int heads, const char* name) {
      const WeightId weight = layer_weight(layer, name, kind.head_dim);
      ops_.add(HeadNorm{act, weight, heads, kind.head_dim, c.norm_eps});
    };
    norm(kind.q, c.heads, "attn_q_norm.weight");
    if (keeps(layer)) {
      norm(kind.k, kind.kv_heads, "attn_k_norm.weight");
      ops_.add(HeadNorm{kind.v, WeightId::None, kind.kv_heads, kind.head_dim, c.norm_eps});
    }
    ops_.add(Rope{kind.q, c.heads, kind.head_dim, rope});
    if (keeps(layer)) {
      ops_.add(Rope{kind.k, kind.kv_heads, kind.head_dim, rope});
      kind.kv = ops_.kv_layer({kind.kv_heads, kind.head_dim});
    }
    AttentionSpec spec{c.heads, kind.kv_heads, kind.head_dim};
    spec.scale = c.scale_of_scores();
    spec.window = c.window_of(layer);
    Attention op{kind.attended, kind.q, kind.k, kind.v, kind.kv, spec};
    op.appends = keeps(layer);
    ops_.add(op);
    blocks_.linear(h, kind.attended, layer, "attn_output", c.attention_output_bias);
    blocks_.norm(h, h, layer, "post_attention_norm");
    blocks_.add();
  }

  void feed_forward(int layer) {
    const ModelConfig& c = config_;
    const ActId h = blocks_.h();
    blocks_.norm(h, blocks_.x(), layer, "ffn_norm");
    const Width& width = width_of(keeps(layer) ? c.ffn_dim : c.shared_kv.ffn_dim);
    blocks_.linear(width.gate, h, layer, "ffn_gate", false);
    blocks_.linear(width.up, h, layer, "ffn_up", false);
    ops_.add(GatedAct{width.gate, width.gate, width.up, c.activation});
    blocks_.linear(h, width.gate, layer, "ffn_down", false);
    if (c.has_experts(layer)) {
      blocks_.norm(h, h, layer, "post_ffw_norm_1");
      experts(layer);
      ops_.add(Add{h, *experts_});
    }
    blocks_.norm(h, h, layer, "post_ffw_norm");
    add(layer, c.layer_embedding == 0);
  }

  void experts(int layer) {
    if (!experts_) {
      experts_ = ops_.act("experts", config_.dim);
      route_ = ops_.act("route", config_.dim);
    }
    const ActId x = blocks_.x(), in = blocks_.routed();
    const WeightId weight = layer_weight(layer, "ffn_gate_inp.scale", config_.dim);
    ops_.add(Norm{*route_, x, weight, config_.norm_eps});
    blocks_.norm(in, x, layer, "pre_ffw_norm_2");
    blocks_.experts(layer, *experts_, in, *route_);
    blocks_.norm(*experts_, *experts_, layer, "post_ffw_norm_2");
  }

  // layers_ = (the token's embeddings + the norm of a projection of x) / sqrt(2), for all layers
  // side by side. The projection is divided by the root of x's width; its norm undoes this, but
  // for the epsilon.
  void embed_for_layers() {
    const ModelConfig& c = config_;
    const int64_t each = c.layer_embedding, all = each * c.layers;
    layers_ = ops_.act("layer_embeddings", all);
    projected_ = ops_.act("layer_projections", all);
    part_ = ops_.act("layer_embedding", each);
    gate_ = ops_.act("layer_gate", each);
    ops_.add(Embed{layers_, ops_.weight("per_layer_token_embd.weight", c.vocab, all),
                   std::sqrt(static_cast<float>(each))});
    const WeightId projection = ops_.weight("per_layer_model_proj.weight", all, c.dim);
    ops_.add(Linear{projected_, blocks_.x(), projection, WeightId::None});
    const WeightId norm = ops_.weight("per_layer_proj_norm.weight", 1, each);
    ops_.add(HeadNorm{projected_, norm, c.layers, static_cast<int>(each),
                      c.norm_eps * static_cast<float>(c.dim)});
    const float half = std::sqrt(0.5f);
    ops_.add(Add{layers_, projected_, half, half});
  }

  void add_embedding(int layer) {
    const int each = static_cast<int>(config_.layer_embedding);
    ops_.add(HeadPart{part_, layers_, 1, each, layer * each});
    blocks_.linear(gate_, blocks_.x(), layer, "inp_gate", false);
    ops_.add(GatedAct{gate_, gate_, part_, config_.activation});
    blocks_.linear(blocks_.h(), gate_, layer, "proj", false);
    blocks_.norm(blocks_.h(), blocks_.h(), layer, "post_norm");
    add(layer, true);
  }

  // x += h, times the layer's scale at its end.
  void add(int layer, bool last) {
    const float scale = last ? scale_of(layer) : 1;
    ops_.add(Add{blocks_.x(), blocks_.h(), scale, scale});
  }

  float scale_of(int layer) const {
    const std::string name = concat("blk.", layer, ".layer_output_scale.weight");
    const Tensor* tensor = file_.find(name);
    if (!tensor || !tensor->view.exists()) return 1;  // a shape without weights has no numbers
    if (tensor->view.rows != 1 || tensor->view.cols != 1) {
      fail(Exit::Model, tensor->file, ": tensor '", name, "' has ",
           tensor->view.rows * tensor->view.cols, " numbers, expected 1");
    }
    float scale = 1;
    std::vector<std::byte> scratch;
    tensor->view.decode_row(0, &scale, scratch);
    if (std::isfinite(scale)) return scale;
    fail(Exit::Model, tensor->file, ": tensor '", name, "' is ", scale, ", expected a number");
  }

  Width& width_of(int64_t width) {
    const auto [found, is_new] = widths_.try_emplace(width);
    if (is_new) found->second = {ops_.act("gate", width), ops_.act("up", width)};
    return found->second;
  }

  const ModelConfig& config_;
  const WeightFile& file_;
  Blocks blocks_;
  ProgramBuilder& ops_;
  std::optional<Kind> kinds_[2];
  std::map<int64_t, Width> widths_;       // of the feed-forward
  std::optional<ActId> experts_, route_;  // the experts' result; what their router reads
  ActId layers_{}, projected_{}, part_{}, gate_{};
};

}  // namespace

Program build_gemma4(const ModelConfig& c, const WeightFile& file) {
  return Layers(c, file).build();
}

}  // namespace skald
