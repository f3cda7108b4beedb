// StarCoder2: Layer norms, biases everywhere, and a feed-forward without a gate.
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"starcoder2"};
constexpr std::string_view kGgufTypes[] = {"starcoder2"};

constexpr std::string_view kDefaults = R"({"num_key_value_heads": 2,
    "max_position_embeddings": 4096, "hidden_act": "gelu_pytorch_tanh"})";

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm = NormKind::Layer;
  defaults.norm_eps = 1e-5;
  defaults.norm_eps_key = "norm_epsilon";
  defaults.tied = true;
  return defaults;
}

void set_layers(ModelConfig& c) {
  c.norm_bias = true;
  c.gated_mlp = false;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = file.with_defaults(kDefaults);
  struct Usual {
    std::string_view key, value;
  };
  for (const auto& [key, usual] :
       {Usual{"norm_type", "layer_norm"}, Usual{"mlp_type", "default"}}) {
    const std::string value = config.text_or(key, usual);
    if (value == usual) continue;
    fail(Exit::Model, config.where(), ": '", key, "' is '", printable(value, 40), "', expected '",
         usual, "'");
  }
  ModelConfig c = read_common_hf(config, hf_defaults());
  set_layers(c);
  c.attention_bias = c.attention_output_bias = c.mlp_bias = config.boolean_or("use_bias", true);
  c.window = static_cast<int>(config.integer_or("sliding_window", 0, 0, kMostWindow));
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file, {.norm = NormKind::Layer});
  set_layers(c);
  c.activation = Activation::GeluTanh;
  return c;
}

std::string name(std::string_view hf_name) {
  constexpr NamePart kParts[] = {{".mlp.c_fc", "ffn_up"}, {".mlp.c_proj", "ffn_down"}};
  if (hf_name == "model.norm.bias") return "output_norm.bias";
  return tensor_name(hf_name, kParts);
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"starcoder2", read_hf_rope(config, c.head_dim)}, out);
}

}  // namespace

const Family kStarcoder2 = {"StarCoder2", kHfTypes, kGgufTypes,  from_hf,
                            from_gguf,    name,     build_llama, to_gguf};

}  // namespace skald
