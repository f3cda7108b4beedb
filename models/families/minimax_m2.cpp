// MiniMax-M2: Mixtral's layers, whose experts are chosen by sigmoids with a bias. One norm covers
// all of a token's queries, another all of its keys, and half of each head rotates.
#include <algorithm>
#include <cstdio>

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

constexpr std::string_view kHfTypes[] = {"minimax_m2"};
constexpr std::string_view kGgufTypes[] = {"minimax-m2"};

constexpr NamePart kParts[] = {{".block_sparse_moe.gate", "ffn_gate_inp"},
                               {".block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"}};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.rope.base = 5e6;
  defaults.rope.partial = true;
  return defaults;
}

// Older files say how many dimensions rotate, newer ones which part of them.
HfConfig with_defaults(const HfConfig& file) {
  const HfConfig config = file.with_defaults(
      R"({"num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 196608})");
  if (!config.has("rotary_dim")) return config;
  const int64_t dims = config.integer("rotary_dim", 1, 1 << 20);
  const int64_t head_dim = config.integer("head_dim", 1, 1 << 20);
  char share[40];
  std::snprintf(share, sizeof share, "%.17g",
                static_cast<double>(dims) / static_cast<double>(head_dim));
  return config.with_defaults(concat("{\"partial_rotary_factor\": ", share, "}"));
}

void complete(ModelConfig& c) {
  c.attention_bias = c.attention_output_bias = c.mlp_bias = false;
  c.qk_norm = QkNorm::Whole;
  c.experts.choice_bias = true;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = with_defaults(file);
  refuse_other_values(config, {{"scoring_func", "sigmoid"}, {"qk_norm_type", "per_layer"}});
  for (const char* key : {"use_qk_norm", "use_routing_bias"}) {
    if (!config.boolean_or(key, true)) {
      fail(Exit::Model, config.where(), ": '", key, "' is false, expected true");
    }
  }
  if (const int64_t shared = config.integer_or("shared_intermediate_size", 0, 0, 1 << 20)) {
    fail(Exit::Model, config.where(), ": 'shared_intermediate_size' is ", shared, ", expected 0");
  }
  if (config.has("attn_type_list")) {
    const std::vector<int64_t> types = config.integers("attn_type_list");
    if (std::count(types.begin(), types.end(), 1) != std::ssize(types)) {
      fail(Exit::Model, config.where(),
           ": 'attn_type_list' has other layers than 1, softmax "
           "attention, which alone is supported");
    }
  }
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.experts = read_hf_experts(config, 256, 8);
  c.experts.ffn_dim = c.ffn_dim;
  c.experts.normalized = true;
  c.experts.gating = Gating::Sigmoid;
  complete(c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.experts = read_gguf_experts(file, c.ffn_dim, {.sigmoids = true});
  if (c.experts.count == 0) {
    fail(Exit::Model, file.path(),
         ": 'minimax-m2.expert_count' is 0 or missing, expected 1 or more");
  }
  complete(c);
  return c;
}

std::string name(std::string_view hf_name) {
  const std::string expert = expert_tensor_name(hf_name, ".block_sparse_moe.experts.", kW1W3W2);
  return expert.empty() ? tensor_name(hf_name, kParts) : expert;
}

void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  const RopeConfig rope = read_hf_rope(with_defaults(file), c.head_dim, hf_defaults().rope);
  put_common(c, {"minimax-m2", rope}, out);
  export_experts(c, "minimax-m2", out);
}

}  // namespace

const Family kMiniMaxM2 = {"MiniMax-M2", kHfTypes, kGgufTypes,  from_hf,
                           from_gguf,    name,     build_llama, to_gguf};

}  // namespace skald
