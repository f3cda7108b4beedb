// Gemma 1, and the functions that Gemma 2 and 3 share with it.
#include "models/families/gemma.h"

#include <cmath>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/blocks.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"gemma"};
constexpr std::string_view kGgufTypes[] = {"gemma"};

// Early configurations say "gelu", but the models were trained with its tanh approximation.
void check_activation(const HfConfig& config) {
  const char* key = config.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const std::string name = config.text_or(key, "gelu");
  if (name == "gelu" || name == "gelu_pytorch_tanh") return;
  fail(Exit::Model, config.where(), ": activation '", printable(name, 80),
       "' is not supported in a Gemma; these are: gelu_pytorch_tanh");
}

float softcap(double value, std::string_view where, std::string_view key) {
  const float cap = static_cast<float>(value);
  if (!(cap >= 0) || !std::isfinite(cap)) {
    fail(Exit::Model, where, ": '", key, "' is ", value, ", expected 0 or more");
  }
  return cap;
}

}  // namespace

void complete_gemma(ModelConfig& c) {
  c.activation = Activation::GeluTanh;
  c.mlp_bias = false;
  // In float32; transformers rounds the scale to its computing type.
  c.embedding_scale = std::sqrt(static_cast<float>(c.dim));
}

ModelConfig read_gemma_hf(const HfConfig& config, std::span<const std::string_view> reads) {
  check_activation(config);
  if (config.boolean_or("use_bidirectional_attention", false)) {
    fail(Exit::Model, config.where(),
         ": 'use_bidirectional_attention' is true; only models that generate text are supported");
  }
  HfDefaults defaults;
  defaults.tied = true;
  defaults.activation = Activation::GeluTanh;
  defaults.reads = reads;
  ModelConfig c = read_common_hf(config, defaults);
  complete_gemma(c);
  c.norm_plus = 1;
  return c;
}

ModelConfig read_gemma_gguf(const GgufFile& file, const GgufReads& reads) {
  ModelConfig c = read_common_gguf(file, reads);
  complete_gemma(c);
  return c;
}

void read_gemma2_scale(const HfConfig& config, ModelConfig& c) {
  const double scalar = config.number("query_pre_attn_scalar");
  c.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
  if (!(c.attention_scale > 0) || !std::isfinite(c.attention_scale)) {
    fail(Exit::Model, config.where(), ": 'query_pre_attn_scalar' is ", scalar,
         ", expected more than 0");
  }
}

void guess_gemma2_scale(ModelConfig& c, int layers_of_largest) {
  if (c.layers != layers_of_largest) return;
  c.attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.dim / c.heads)));
}

float read_softcap(const HfConfig& config, std::string_view key) {
  return softcap(config.number_or(key, 0), config.where(), key);
}

float read_softcap(const GgufFile& file, std::string_view key, double otherwise) {
  const std::string full = concat(file.metadata().text("general.architecture"), ".", key);
  return softcap(file.metadata().number_or(full, otherwise), file.path(), full);
}

std::string gemma2_tensor_name(std::string_view hf_name) {
  constexpr NamePart kParts[] = {{".post_attention_layernorm", "post_attention_norm"},
                                 {".pre_feedforward_layernorm", "ffn_norm"},
                                 {".post_feedforward_layernorm", "post_ffw_norm"}};
  return tensor_name(hf_name, kParts);
}

Program build_gemma2(const ModelConfig& c, const WeightFile& file) {
  return build_norms_around(c, file);
}

namespace {

ModelConfig from_hf(const HfConfig& config) {
  return read_gemma_hf(
      config.with_defaults(R"({"head_dim": 256, "max_position_embeddings": 8192})"));
}

ModelConfig from_gguf(const GgufFile& file) { return read_gemma_gguf(file, {}); }

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"gemma", read_hf_rope(config, c.head_dim)}, out);
  complete_norms(c, out);
}

}  // namespace

const Family kGemma = {"Gemma",   kHfTypes,          kGgufTypes,  from_hf,
                       from_gguf, llama_tensor_name, build_llama, to_gguf};

}  // namespace skald
