#include "models/random/random_plan.h"

#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "models/random/random_layers.h"

namespace skald {
namespace {

bool needs_more_bits(int layer, int layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

class Planner {
 public:
  Planner(const RandomShape& shape, const RandomType& type) : shape_(shape), type_(type) {}

  RandomPlan plan() && {
    const RandomShape& s = shape_;
    matrix("token_embd.weight", s.tied ? type_.head : type_.most, s.vocab, s.dim);
    for (int layer = 0; layer < s.layers; ++layer) plan_layer(layer);
    begin_ = "";
    vector("output_norm.weight", s.dim);
    if (s.family == &kStarcoder2) vector("output_norm.bias", s.dim);
    if (!s.tied) matrix("output.weight", type_.head, s.vocab, s.dim);
    return std::move(plan_);
  }

 private:
  // Widths of a layer's attention, all heads together.
  struct Heads {
    int64_t head_dim, queries, keys;
    bool values_are_keys;
  };
  Heads heads_of(int layer) const {
    const RandomShape& s = shape_;
    const bool full = has_full_heads(s, layer);
    const int64_t head_dim = full ? s.full.head_dim : s.head_dim;
    return {head_dim, s.heads * head_dim, (full ? s.full.kv_heads : s.kv_heads) * head_dim, full};
  }

  void plan_layer(int layer) {
    const LayerParts parts = layer_parts(shape_, layer);
    const Heads heads = heads_of(layer);
    begin_ = concat("blk.", layer, ".");
    more_ = needs_more_bits(layer, shape_.layers) ? type_.more : type_.most;
    vector("attn_norm.weight", shape_.dim);
    switch (parts.mixer) {
      case Mixer::None:
        break;
      case Mixer::Attention:
        plan_attention(heads);
        break;
      case Mixer::Latent:
        plan_latent();
        break;
      case Mixer::DeltaNet:
        plan_net();
        break;
      case Mixer::Space:
        plan_space();
        break;
    }
    if (parts.mixer != Mixer::None && (parts.dense || parts.experts)) plan_second_norm();
    if (parts.mixer == Mixer::Attention) plan_attention_vectors(heads);
    plan_later_norms();
    if (parts.experts) plan_experts();
    if (parts.experts && parts.dense) plan_joint();
    if (parts.dense) plan_dense();
  }

  void plan_attention(const Heads& heads) {
    const bool gates = shape_.family == &kQwen35;  // one in attn_q for each query
    matrix("attn_q.weight", type_.most, gates ? 2 * heads.queries : heads.queries, shape_.dim);
    matrix("attn_k.weight", type_.most, heads.keys, shape_.dim);
    if (!heads.values_are_keys) matrix("attn_v.weight", more_, heads.keys, shape_.dim);
    matrix("attn_output.weight", type_.most, shape_.dim, heads.queries);
  }

  // The attention's sinks, biases and norms.
  void plan_attention_vectors(const Heads& heads) {
    if (shape_.family == &kGptOss) {
      vector("attn_sinks.weight", shape_.heads);
      vector("attn_output.bias", shape_.dim);
    }
    if (biases_qkv(shape_)) {
      vector("attn_q.bias", heads.queries);
      vector("attn_k.bias", heads.keys);
      vector("attn_v.bias", heads.keys);
    }
    if (norms_heads(shape_)) {
      vector("attn_q_norm.weight", heads.head_dim);
      vector("attn_k_norm.weight", heads.head_dim);
    }
  }

  void plan_latent() {
    const LatentConfig& l = shape_.latent;
    const DType type = type_.most;
    const int64_t heads = shape_.heads;
    matrix("attn_q_a.weight", type, l.query_rank, shape_.dim);
    vector("attn_q_a_norm.weight", l.query_rank);
    matrix("attn_q_b.weight", type, heads * (l.key_dim + l.rope_dim), l.query_rank);
    matrix("attn_kv_a_mqa.weight", type, l.rank + l.rope_dim, shape_.dim);
    vector("attn_kv_a_norm.weight", l.rank);
    stack("attn_k_b.weight", type, heads, l.rank, l.key_dim);
    stack("attn_v_b.weight", type, heads, l.value_dim, l.rank);
    matrix("attn_output.weight", type, shape_.dim, heads * l.value_dim);
  }

  void plan_net() {
    const DeltaSpec& s = shape_.delta;
    const int64_t mixed = 2 * s.keys() + s.values();
    matrix("attn_qkv.weight", more_, mixed, shape_.dim);
    matrix("attn_gate.weight", type_.most, s.values(), shape_.dim);
    matrix("ssm_beta.weight", type_.most, s.value_heads, shape_.dim);
    matrix("ssm_alpha.weight", type_.most, s.value_heads, shape_.dim);
    matrix("ssm_conv1d.weight", DType::F32, mixed, kRandomTaps);
    // The logarithm: whatever the noise, states then fade.
    vector("ssm_a.log", s.value_heads);
    vector("ssm_dt.bias", s.value_heads);
    vector("ssm_norm.weight", s.value_dim);
    matrix("ssm_out.weight", type_.most, shape_.dim, s.values());
  }

  void plan_space() {
    const SpaceSpec& s = shape_.space;
    matrix("ssm_in.weight", type_.most, s.values() + s.inputs() + s.heads, shape_.dim);
    matrix("ssm_conv1d.weight", DType::F32, s.inputs(), kRandomTaps);
    vector("ssm_conv1d.bias", s.inputs());
    vector("ssm_a.log", s.heads);  // the logarithm, as above
    vector("ssm_d", s.heads);
    vector("ssm_dt.bias", s.heads);
    vector("ssm_norm.weight", s.values());
    matrix("ssm_out.weight", type_.most, shape_.dim, s.values());
  }

  // The norm between a layer's halves. Cohere 2's halves stand side by side, after one norm.
  void plan_second_norm() {
    if (shape_.family == &kCohere2) return;
    const bool renamed = shape_.family == &kGptOss || shape_.family == &kQwen35;
    vector(renamed ? "post_attention_norm.weight" : "ffn_norm.weight", shape_.dim);
  }

  void plan_later_norms() {
    if (shape_.family != &kGemma2 && shape_.family != &kGemma3 && shape_.family != &kGemma4) return;
    vector("post_attention_norm.weight", shape_.dim);
    vector("post_ffw_norm.weight", shape_.dim);
  }

  void plan_dense() {
    if (shape_.family == &kStarcoder2) {
      for (const char* part : {"attn_norm", "ffn_norm", "attn_output", "ffn_down"}) {
        vector(concat(part, ".bias"), shape_.dim);
      }
      vector("ffn_up.bias", shape_.ffn_dim);
    }
    if (has_gates(shape_)) matrix("ffn_gate.weight", type_.most, shape_.ffn_dim, shape_.dim);
    matrix("ffn_up.weight", type_.most, shape_.ffn_dim, shape_.dim);
    matrix("ffn_down.weight", more_, shape_.dim, shape_.ffn_dim);
  }

  void plan_experts() {
    const ExpertsConfig& e = shape_.experts;
    const DType most = type_.experts.value_or(type_.most), more = type_.experts.value_or(more_);
    const bool gates = has_gates(shape_);
    matrix("ffn_gate_inp.weight", DType::F32, e.count, shape_.dim);
    if (gates) stack("ffn_gate_exps.weight", most, e.count, e.ffn_dim, shape_.dim);
    stack("ffn_up_exps.weight", most, e.count, e.ffn_dim, shape_.dim);
    stack("ffn_down_exps.weight", more, e.count, shape_.dim, e.ffn_dim);
    if (e.shared_dim > 0) {
      if (gates) matrix("ffn_gate_shexp.weight", most, e.shared_dim, shape_.dim);
      matrix("ffn_up_shexp.weight", most, e.shared_dim, shape_.dim);
      matrix("ffn_down_shexp.weight", more, shape_.dim, e.shared_dim);
    }
    if (e.shared_gate) vector("ffn_gate_inp_shexp.weight", shape_.dim);
    if (e.choice_bias) vector("exp_probs_b.bias", e.count);
    if (!e.bias) return;
    vector("ffn_gate_inp.bias", e.count);
    matrix("ffn_gate_exps.bias", DType::F32, e.count, e.ffn_dim);
    matrix("ffn_up_exps.bias", DType::F32, e.count, e.ffn_dim);
    matrix("ffn_down_exps.bias", DType::F32, e.count, shape_.dim);
  }

  // What Gemma 4 has where experts stand beside a feed-forward.
  void plan_joint() {
    for (const char* norm : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"}) {
      vector(concat(norm, ".weight"), shape_.dim);
    }
    vector("ffn_gate_inp.scale", shape_.dim);
    vector("ffn_down_exps.scale", shape_.experts.count);
  }

  void vector(std::string_view name, int64_t cols) { matrix(name, DType::F32, 1, cols); }

  void matrix(std::string_view name, DType type, int64_t rows, int64_t cols) {
    put(name, type, rows, cols, 0);
  }

  // `count` matrices of these rows and columns in one tensor.
  void stack(std::string_view name, DType type, int64_t count, int64_t rows, int64_t cols) {
    put(name, type, count * rows, cols, count);
  }

  void put(std::string_view name, DType type, int64_t rows, int64_t cols, int64_t stacked) {
    // If rows are no whole blocks of the format, take the fallback format, as quantizers do.
    if (cols % info(type).block_elems != 0) type = cols % 32 == 0 ? DType::Q8_0 : DType::F16;
    plan_.tensors.push_back({concat(begin_, name), type, rows, cols, stacked, plan_.bytes});
    plan_.bytes += (rows * row_bytes(type, cols) + 63) / 64 * 64;
  }

  const RandomShape& shape_;
  const RandomType& type_;
  RandomPlan plan_;
  std::string begin_;  // of the names of the layer's tensors: "blk.3."
  DType more_;         // the format of the matrices that need more bits, in this layer
};

}  // namespace

RandomPlan plan_weights(const RandomShape& shape, const RandomType& type) {
  return Planner(shape, type).plan();
}

}  // namespace skald
