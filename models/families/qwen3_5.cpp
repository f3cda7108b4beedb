// Qwen3-Next and Qwen3.5 to 3.8, dense and with experts, the text part: three of four layers have a
// gated delta net, the fourth has attention with a gate. The vision encoder is ignored; a layer
// that predicts a further token is models/heads'.
#include <string>

#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/blocks.h"
#include "models/families/shared/config.h"
#include "models/families/shared/delta.h"
#include "models/families/shared/experts.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe",
                                         "qwen3_5_moe_text"};
constexpr std::string_view kGgufTypes[] = {"qwen3next", "qwen35", "qwen35moe"};

constexpr NamePart kParts[] = {{".linear_attn.in_proj_qkvz", "ssm_in"},
                               {".linear_attn.in_proj_qkv", "attn_qkv"},
                               {".linear_attn.in_proj_z", "attn_gate"},
                               {".linear_attn.in_proj_ba", "ssm_ba"},
                               {".linear_attn.in_proj_b", "ssm_beta"},
                               {".linear_attn.in_proj_a", "ssm_alpha"},
                               {".linear_attn.conv1d", "ssm_conv1d"},
                               {".linear_attn.A_log", "ssm_a.log"},
                               {".linear_attn.dt_bias", "ssm_dt.bias"},
                               {".linear_attn.norm", "ssm_norm"},
                               {".linear_attn.out_proj", "ssm_out"},
                               {".post_attention_layernorm", kLateFfnNorm},
                               {".mlp.gate", "ffn_gate_inp"},
                               {".mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
                               {".mlp.experts.down_proj", "ffn_down_exps.weight"},
                               {".mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                               {".mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                               {".mlp.shared_expert.up_proj", "ffn_up_shexp"},
                               {".mlp.shared_expert.down_proj", "ffn_down_shexp"}};

constexpr std::string_view kDefaults = R"({"vocab_size": 151936, "head_dim": 256,
    "num_key_value_heads": 2, "max_position_embeddings": 32768, "partial_rotary_factor": 0.25,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    "intermediate_size": 512})";

// The sections that a configuration leaves out.
constexpr int32_t kSections[] = {11, 11, 10, 0};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.rope.partial = true;
  defaults.rope.sections = true;
  return defaults;
}

void complete(ModelConfig& c) {
  c.mlp_bias = false;
  c.qk_norm = QkNorm::Heads;
  c.attention_gate = true;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig text = text_part(file);
  const bool experts = text.has("num_experts");
  if (!experts) text.integer("intermediate_size", 1, kMostFfnDim);  // has no default
  const HfConfig config = text.with_defaults(kDefaults);
  refuse_other_values(config, {{"hidden_act", "silu"}});
  if (!config.boolean_or("attn_output_gate", true)) {
    fail(Exit::Model, config.where(), ": 'attn_output_gate' is false, expected true");
  }
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.architecture = file.text("model_type");
  c.tied = text_part_is_tied(file);
  c.norm_plus = 1;
  complete(c);
  c.delta = read_hf_delta(config, c.layers);
  if (experts) {
    c.experts = read_qwen_experts(config, c.layers, {512, 10, true});
    read_qwen_shared_expert(config, c.experts);
  }
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  complete(c);
  leave_out_predicting_layers(file, c);
  const bool blocks = c.architecture == "qwen3next";
  c.delta = read_gguf_delta(file, c.layers, blocks ? HeadOrder::Blocks : HeadOrder::Turns);
  c.experts = read_gguf_experts(file, c.ffn_dim);
  if (c.experts.count > 0) {
    read_qwen_shared_expert(file, c.experts.ffn_dim, c.experts);
    c.experts.normalized =
        file.metadata().boolean_or(c.architecture + ".expert_weights_norm", true);
  }
  return c;
}

Program build(const ModelConfig& c, const WeightFile& file) {
  Blocks b(c, file);
  DeltaLayers nets(c, file, b);
  b.embed();
  for (int layer = 0; layer < c.layers; ++layer) {
    b.norm(b.h(), b.x(), layer, "attn_norm");
    if (c.has_delta(layer)) {
      nets.add(layer, b.h());
    } else {
      b.attention(layer, b.h());
    }
    b.add();
    b.feed_forward(layer, kLateFfnNorm);
  }
  return std::move(b).finish();
}

std::string name(std::string_view hf_name) {
  const std::string text = text_model_name(hf_name);
  const std::string expert = expert_tensor_name(text, ".mlp.experts.", kGateUpDown);
  return expert.empty() ? tensor_name(text, kParts) : expert;
}

// Qwen3.5's files, but not Qwen3-Next's, have the heads of values in turns and say the sections of
// a rope for images.
void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  const HfConfig config = text_part(file).with_defaults(kDefaults);
  const bool next = file.text("model_type") == "qwen3_next", experts = c.experts.count > 0;
  const std::string architecture = next ? "qwen3next" : experts ? "qwen35moe" : "qwen35";
  // Programs that read such a GGUF normalize the weights of experts.
  if (experts && !c.experts.normalized) {
    fail(Exit::Model, file.where(), ": a GGUF of the architecture '", architecture,
         "' cannot say this model's experts, whose weights are not normalized");
  }
  put_common(c, {architecture, read_hf_rope(config, c.head_dim, hf_defaults().rope)}, out);
  if (!next) {
    const std::string key = architecture + ".rope.dimension_sections";
    put_rope_sections(config, architecture, out);
    if (!out.head.has(key)) out.head.put_ints(key, kSections);
  }
  complete_norms(c, out);
  for (MadeTensor& tensor : out.tensors) {
    if (tensor.name.ends_with("ssm_norm.weight")) tensor.added = 0;
    if (tensor.name.ends_with("ffn_gate_inp_shexp.weight")) tensor.shape = {c.dim};
  }
  export_delta(c, architecture, next ? HeadOrder::Blocks : HeadOrder::Turns, out);
  if (!experts) return;
  out.head.put_u32(architecture + ".expert_shared_feed_forward_length", c.experts.shared_dim);
  split_gate_up_experts(c, out);
  export_experts(c, architecture, out);
}

}  // namespace

const Family kQwen35 = {.name = "Qwen3.5",
                        .hf_types = kHfTypes,
                        .gguf_types = kGgufTypes,
                        .from_hf = from_hf,
                        .from_gguf = from_gguf,
                        .canonical_name = name,
                        .build = build,
                        .to_gguf = to_gguf,
                        .predictor_reads = Features::Normed};

}  // namespace skald
