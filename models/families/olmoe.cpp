// OLMoE: Llama's layers with experts instead of one feed-forward. One norm covers all of a token's
// queries, another all of its keys.
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

constexpr std::string_view kHfTypes[] = {"olmoe"};
constexpr std::string_view kGgufTypes[] = {"olmoe"};

constexpr NamePart kParts[] = {{".mlp.gate", "ffn_gate_inp"}};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  return defaults;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = file.with_defaults(R"({"max_position_embeddings": 4096})");
  if (config.has("clip_qkv")) {
    fail(Exit::Model, config.where(), ": 'clip_qkv' is ", config.number("clip_qkv"),
         ", which skald does not support; expected null");
  }
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.qk_norm = QkNorm::Whole;
  c.experts = read_hf_experts(config, 64, 8);
  c.experts.ffn_dim = c.ffn_dim;
  c.experts.normalized = config.boolean_or("norm_topk_prob", false);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  if (file.metadata().find("olmoe.attention.clamp_kqv")) {
    fail(Exit::Model, file.path(), ": 'olmoe.attention.clamp_kqv' is not supported");
  }
  ModelConfig c = read_common_gguf(file);
  c.qk_norm = QkNorm::Whole;
  c.experts = read_gguf_experts(file, c.ffn_dim);
  if (c.experts.count == 0) {
    fail(Exit::Model, file.path(), ": 'olmoe.expert_count' is 0 or missing, expected 1 or more");
  }
  c.experts.normalized = file.metadata().boolean_or("olmoe.expert_weights_norm", false);
  return c;
}

std::string name(std::string_view hf_name) {
  const std::string expert = expert_tensor_name(hf_name, ".mlp.experts.", kGateUpDown);
  return expert.empty() ? tensor_name(hf_name, kParts) : expert;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"olmoe", read_hf_rope(config, c.head_dim)}, out);
  export_experts(c, "olmoe", out);
}

}  // namespace

const Family kOlmoe = {"OLMoE",   kHfTypes, kGgufTypes,  from_hf,
                       from_gguf, name,     build_llama, to_gguf};

}  // namespace skald
