// GLM-4.5 and 4.6: routed experts that sigmoids choose, with a bias, beside a shared expert. The
// first layers have no experts, and half of each head rotates. The larger models norm each head's
// query and key. A last layer that predicts a further token is models/heads'.
#include <algorithm>

#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/experts.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"glm4_moe"};
constexpr std::string_view kGgufTypes[] = {"glm4moe"};

constexpr NamePart kParts[] = {{".mlp.gate", "ffn_gate_inp"},
                               {".mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
                               {".mlp.shared_experts.up_proj", "ffn_up_shexp"},
                               {".mlp.shared_experts.down_proj", "ffn_down_shexp"},
                               {".post_attention_layernorm", kLateFfnNorm},
                               {".mlp.gate.e_score_correction_bias", "exp_probs_b.bias"}};

constexpr std::string_view kDefaults = R"({"num_key_value_heads": 8, "head_dim": 128,
    "max_position_embeddings": 131072, "partial_rotary_factor": 0.5, "attention_bias": false,
    "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "first_k_dense_replace": 1, "routed_scaling_factor": 1.0})";

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.rope.partial = true;
  return defaults;
}

void complete(ModelConfig& c) {
  c.attention_output_bias = c.mlp_bias = false;
  c.experts.choice_bias = true;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = file.with_defaults(kDefaults);
  for (const char* key : {"n_group", "topk_group"}) {
    const int64_t groups = config.integer_or(key, 1, 0, 1 << 20);
    if (groups <= 1) continue;
    fail(Exit::Model, config.where(), ": '", key, "' is ", groups,
         "; groups of experts are not supported, expected 1");
  }
  refuse_other_values(config, {{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}});
  ModelConfig c = read_common_hf(config, hf_defaults());
  if (config.boolean_or("use_qk_norm", false)) c.qk_norm = QkNorm::Heads;
  const int64_t experts = config.integer("n_routed_experts", 1, kMostExperts);
  c.experts.count = static_cast<int>(experts);
  c.experts.used = static_cast<int>(config.integer("num_experts_per_tok", 1, experts));
  c.experts.ffn_dim = config.integer("moe_intermediate_size", 1, kMostFfnDim);
  c.experts.shared_dim = config.integer("n_shared_experts", 0, 1 << 10) * c.experts.ffn_dim;
  c.experts.normalized = config.boolean_or("norm_topk_prob", true);
  constexpr std::string_view kScale = "routed_scaling_factor";
  c.experts.scale = checked_scale(config.number(kScale), config.where(), kScale);
  c.experts.gating = Gating::Sigmoid;
  const int64_t dense = config.integer("first_k_dense_replace", 0, 1 << 20);
  for (int layer = 0; dense > 0 && layer < c.layers; ++layer) {
    c.experts.dense.push_back(layer < dense);
  }
  complete(c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.experts = read_gguf_experts(file, c.ffn_dim, {.sigmoids = true, .shared_and_dense = true});
  if (c.experts.count == 0) {
    fail(Exit::Model, file.path(), ": 'glm4moe.expert_count' is 0 or missing, expected 1 or more");
  }
  c.experts.normalized = file.metadata().boolean_or("glm4moe.expert_weights_norm", false);
  leave_out_predicting_layers(file, c);
  if (!c.experts.dense.empty()) c.experts.dense.resize(static_cast<size_t>(c.layers));
  if (file.find("blk.0.attn_q_norm.weight")) c.qk_norm = QkNorm::Heads;
  complete(c);
  return c;
}

std::string name(std::string_view hf_name) {
  const std::string expert = expert_tensor_name(hf_name, ".mlp.experts.", kGateUpDown);
  return expert.empty() ? tensor_name(hf_name, kParts) : expert;
}

void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  const HfConfig config = file.with_defaults(kDefaults);
  put_common(c, {"glm4moe", read_hf_rope(config, c.head_dim, hf_defaults().rope)}, out);
  export_experts(c, "glm4moe", out);
  out.head.put_u32("glm4moe.expert_shared_count", config.integer("n_shared_experts", 0, 1 << 10));
  out.head.put_u32("glm4moe.leading_dense_block_count",
                   std::count(c.experts.dense.begin(), c.experts.dense.end(), true));
}

}  // namespace

const Family kGlm4Moe = {.name = "GLM-4 MoE",
                         .hf_types = kHfTypes,
                         .gguf_types = kGgufTypes,
                         .from_hf = from_hf,
                         .from_gguf = from_gguf,
                         .canonical_name = name,
                         .build = build_llama_late,
                         .to_gguf = to_gguf,
                         .predictor_reads = Features::Stream};

}  // namespace skald
