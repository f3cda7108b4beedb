// Qwen1.5-MoE and Qwen2-MoE: Qwen2's attention, and routed experts beside a shared expert. A gate
// multiplies the shared expert's result by one factor per row.
#include <string>

#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/experts.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/families/shared/windows.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"qwen2_moe"};
constexpr std::string_view kGgufTypes[] = {"qwen2moe"};

constexpr NamePart kParts[] = {{".mlp.gate", "ffn_gate_inp"},
                               {".mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                               {".mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                               {".mlp.shared_expert.up_proj", "ffn_up_shexp"},
                               {".mlp.shared_expert.down_proj", "ffn_down_shexp"}};

constexpr std::string_view kDefaults = R"({"num_key_value_heads": 16,
    "max_position_embeddings": 32768, "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632})";
constexpr std::string_view kWidth = "qwen2moe.expert_feed_forward_length";
constexpr std::string_view kSharedWidth = "qwen2moe.expert_shared_feed_forward_length";
constexpr std::string_view kNormalized = "qwen2moe.expert_weights_norm";

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = file.with_defaults(kDefaults);
  ModelConfig c = read_common_hf(config);
  c.attention_bias = config.boolean_or("qkv_bias", true);
  c.attention_output_bias = c.mlp_bias = false;
  read_qwen_windows(config, c);
  c.experts = read_qwen_experts(config, c.layers, {60, 4, false});
  read_qwen_shared_expert(config, c.experts);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  if (c.window != 0 && c.window < c.context) {
    fail(Exit::Model, file.path(), ": 'qwen2moe.attention.sliding_window' is ", c.window,
         "; windows are not supported in a GGUF of architecture 'qwen2moe'");
  }
  c.window = 0;
  c.experts = read_gguf_experts(file, c.ffn_dim);
  if (c.experts.count == 0) {
    fail(Exit::Model, file.path(), ": 'qwen2moe.expert_count' is 0 or missing, expected 1 or more");
  }
  const GgufMetadata& metadata = file.metadata();
  const auto width = [&](std::string_view key, int64_t unsaid) {
    const uint64_t value = metadata.uint_or(std::string(key), static_cast<uint64_t>(unsaid));
    if (value >= 1 && value <= static_cast<uint64_t>(kMostFfnDim)) {
      return static_cast<int64_t>(value);
    }
    fail(Exit::Model, file.path(), ": '", key, "' is ", value, ", expected 1 to ", kMostFfnDim);
  };
  c.experts.ffn_dim = width(kWidth, c.ffn_dim / c.experts.used);
  read_qwen_shared_expert(file, c.ffn_dim, c.experts);
  c.experts.normalized = metadata.boolean_or(std::string(kNormalized), false);
  return c;
}

std::string name(std::string_view hf_name) {
  const std::string expert = expert_tensor_name(hf_name, ".mlp.experts.", kGateUpDown);
  return expert.empty() ? tensor_name(hf_name, kParts) : expert;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  // Programs that read such a GGUF assume experts in all layers, and weights of experts that are
  // not normalized.
  if (!c.experts.dense.empty() || c.experts.normalized) {
    fail(Exit::Model, config.where(), ": a GGUF of the architecture 'qwen2moe' cannot say this ",
         c.experts.normalized ? "model's normalized weights of experts"
                              : "model's layers without experts");
  }
  put_common(c, {"qwen2moe", read_hf_rope(config, c.head_dim)}, out);
  export_experts(c, "qwen2moe", out);
  out.head.put_u32(kSharedWidth, c.experts.shared_dim);
  for (MadeTensor& tensor : out.tensors) {
    if (tensor.name.ends_with("ffn_gate_inp_shexp.weight")) tensor.shape = {c.dim};
  }
}

}  // namespace

const Family kQwen2Moe = {"Qwen2-MoE", kHfTypes, kGgufTypes,  from_hf,
                          from_gguf,   name,     build_llama, to_gguf};

}  // namespace skald
