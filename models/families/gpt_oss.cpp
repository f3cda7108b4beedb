// gpt-oss: Mixtral's layers, whose experts have biases and a clamped activation. A sink stands
// beside each head's keys, every second layer has no window, and q, k, v and o have biases.
#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/gpt_oss_weights.h"
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

constexpr std::string_view kHfTypes[] = {"gpt_oss"};
constexpr std::string_view kGgufTypes[] = {"gpt-oss"};

constexpr int kPeriod = 2;  // every second layer has no window

constexpr NamePart kParts[] = {{".mlp.router", "ffn_gate_inp"},
                               {".post_attention_layernorm", kLateFfnNorm},
                               {".self_attn.sinks", "attn_sinks.weight"},
                               {".mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
                               {".mlp.experts.gate_up_proj_blocks", "ffn_gate_up_exps.blocks"},
                               {".mlp.experts.gate_up_proj_scales", "ffn_gate_up_exps.scales"},
                               {".mlp.experts.gate_up_proj_bias", "ffn_gate_up_exps.bias"},
                               {".mlp.experts.down_proj", "ffn_down_exps.weight"},
                               {".mlp.experts.down_proj_blocks", "ffn_down_exps.blocks"},
                               {".mlp.experts.down_proj_scales", "ffn_down_exps.scales"},
                               {".mlp.experts.down_proj_bias", "ffn_down_exps.bias"}};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.rope.base = 150000;
  return defaults;
}

// What all models of the family have, whatever the file.
void complete(ModelConfig& c) {
  c.activation = Activation::ClampedSwiglu;
  c.attention_sinks = true;
  c.experts.bias = true;
  c.experts.normalized = true;
}

HfConfig with_defaults(const HfConfig& file) {
  return file.with_defaults(
      R"({"num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072,
          "sliding_window": 128, "attention_bias": true})");
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = with_defaults(file);
  const double limit = config.number_or("swiglu_limit", kSwigluLimit);
  if (limit != kSwigluLimit) {
    fail(Exit::Model, config.where(), ": 'swiglu_limit' is ", limit, ", expected ", kSwigluLimit);
  }
  refuse_other_values(config, {{"hidden_act", "silu"}});
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.mlp_bias = false;
  c.window = static_cast<int>(config.integer_or("sliding_window", 0, 0, kMostWindow));
  c.windows = read_layer_windows(config, c.layers, c.window);
  if (c.windows.empty()) c.windows = windows_by_period(c.layers, c.window, kPeriod);
  c.experts = read_hf_experts(config, 128, 4);
  c.experts.ffn_dim = c.ffn_dim;
  complete(c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  if (c.window == 0) {
    fail(Exit::Model, file.path(),
         ": 'gpt-oss.attention.sliding_window' is 0 or missing, expected 1 or more");
  }
  c.windows = gguf_windows(file, c.layers, c.window, kPeriod);
  c.experts = read_gguf_experts(file, c.ffn_dim);
  if (c.experts.count == 0) {
    fail(Exit::Model, file.path(), ": 'gpt-oss.expert_count' is 0 or missing, expected 1 or more");
  }
  // The models were trained with a ramp whose ends are not rounded, for which GGUF has no key.
  RopeConfig rope = read_gguf_rope(file, c.head_dim);
  rope.scaling.truncate = false;
  c.rope = rope.spec();
  complete(c);
  return c;
}

std::string name(std::string_view hf_name) { return tensor_name(hf_name, kParts); }

void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"gpt-oss", read_hf_rope(with_defaults(file), c.head_dim, hf_defaults().rope)},
             out);
  put_window_period(c, "gpt-oss", kPeriod, out);
  export_experts(c, "gpt-oss", out);
}

}  // namespace

const Family kGptOss = {"gpt-oss",        kHfTypes, kGgufTypes,      from_hf, from_gguf, name,
                        build_llama_late, to_gguf,  gpt_oss_weights, false,   "mxfp4"};

}  // namespace skald
