// Qwen3-MoE: Qwen3's attention, and experts instead of one feed-forward in all layers but those
// that the configuration lists.
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

constexpr std::string_view kHfTypes[] = {"qwen3_moe"};
constexpr std::string_view kGgufTypes[] = {"qwen3moe"};

constexpr NamePart kParts[] = {{".mlp.gate", "ffn_gate_inp"}};

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = file.with_defaults(
      R"({"num_key_value_heads": 4, "max_position_embeddings": 32768, "sliding_window": 4096,
          "moe_intermediate_size": 768})");
  ModelConfig c = read_common_hf(config);
  c.mlp_bias = false;
  c.qk_norm = QkNorm::Heads;
  if (config.boolean_or("use_sliding_window", false)) {
    c.window = static_cast<int>(config.integer_or("sliding_window", 0, 0, kMostWindow));
  }
  c.experts = read_qwen_experts(config, c.layers, {128, 8, false});
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.qk_norm = QkNorm::Heads;
  c.experts = read_gguf_experts(file, c.ffn_dim);
  if (c.experts.count == 0) {
    fail(Exit::Model, file.path(), ": 'qwen3moe.expert_count' is 0 or missing, expected 1 or more");
  }
  if (c.window != 0 && c.window < c.context) {
    fail(Exit::Model, file.path(), ": 'qwen3moe.attention.sliding_window' is ", c.window,
         "; windows are not supported in a GGUF of architecture 'qwen3moe'");
  }
  c.window = 0;
  return c;
}

std::string qwen3_moe_tensor_name(std::string_view name) {
  const std::string expert = expert_tensor_name(name, ".mlp.experts.", kGateUpDown);
  return expert.empty() ? tensor_name(name, kParts) : expert;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  if (!c.experts.dense.empty()) {
    fail(Exit::Model, config.where(),
         ": a GGUF of the architecture 'qwen3moe' cannot say this model's layers without experts");
  }
  put_common(c, {"qwen3moe", read_hf_rope(config, c.head_dim)}, out);
  export_experts(c, "qwen3moe", out);
}

}  // namespace

const Family kQwen3Moe = {"Qwen3-MoE",           kHfTypes,    kGgufTypes, from_hf, from_gguf,
                          qwen3_moe_tensor_name, build_llama, to_gguf};

}  // namespace skald
