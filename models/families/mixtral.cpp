// Mixtral: Mistral's layers with experts instead of one feed-forward. GGUFs have "llama".
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/experts.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"mixtral"};

constexpr NamePart kParts[] = {{".block_sparse_moe.gate", "ffn_gate_inp"}};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.rope.base = 1e6;
  return defaults;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config =
      file.with_defaults(R"({"num_key_value_heads": 8, "max_position_embeddings": 131072})");
  ModelConfig c = read_common_hf(config, hf_defaults());
  // The models have no biases, whatever the configuration says.
  c.attention_bias = c.attention_output_bias = c.mlp_bias = false;
  c.window = static_cast<int>(config.integer_or("sliding_window", 0, 0, kMostWindow));
  c.experts = read_hf_experts(config, 8, 2);
  c.experts.ffn_dim = c.ffn_dim;
  c.experts.normalized = true;
  return c;
}

std::string mixtral_tensor_name(std::string_view name) {
  const std::string expert = expert_tensor_name(name, ".block_sparse_moe.experts.", kW1W3W2);
  return expert.empty() ? tensor_name(name, kParts) : expert;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"llama", read_hf_rope(config, c.head_dim, hf_defaults().rope), true}, out);
  interleave_heads(c, out);
  export_experts(c, "llama", out);
}

}  // namespace

const Family kMixtral = {"Mixtral",           kHfTypes,    {},      from_hf, nullptr,
                         mixtral_tensor_name, build_llama, to_gguf, nullptr, true};

}  // namespace skald
