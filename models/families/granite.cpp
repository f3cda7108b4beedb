// Granite 3: Llama's layers with four multipliers: for embeddings, attention scores, residual
// additions and logits.
#include <cmath>

#include "engine/base/error.h"
#include "models/families/config.h"
#include "models/families/families.h"
#include "models/families/gguf_fields.h"
#include "models/families/llama.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"granite"};
constexpr std::string_view kGgufTypes[] = {"granite"};

float multiplier(double value, std::string_view where, std::string_view key) {
  const float multiplier = static_cast<float>(value);
  if (!(multiplier > 0) || !std::isfinite(multiplier)) {
    fail(Exit::Model, where, ": '", key, "' is ", value, ", expected more than 0");
  }
  return multiplier;
}

constexpr std::string_view kReads[] = {"embedding_multiplier", "attention_multiplier",
                                       "residual_multiplier", "logits_scaling"};

ModelConfig from_hf(const HfConfig& config) {
  HfDefaults defaults;
  defaults.reads = kReads;
  ModelConfig c = read_common_hf(config, defaults);
  const auto read = [&](const char* key) {
    return multiplier(config.number_or(key, 1), config.where(), key);
  };
  c.embedding_scale = read("embedding_multiplier");
  c.attention_scale = read("attention_multiplier");
  c.residual_scale = read("residual_multiplier");
  c.logit_scale = 1 / read("logits_scaling");
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  const auto read = [&](const char* key, float otherwise) {
    const double value = file.metadata().number_or(key, 0);
    return value == 0 ? otherwise : multiplier(value, file.path(), key);
  };
  c.embedding_scale = read("granite.embedding_scale", 1);
  c.attention_scale = read("granite.attention.scale", 0);
  c.residual_scale = read("granite.residual_scale", 1);
  c.logit_scale = 1 / read("granite.logit_scale", 1);
  c.rope.interleaved = true;
  return c;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"granite", read_hf_rope(config, c.head_dim), true}, out);
  out.head.put_f32("granite.embedding_scale", c.embedding_scale);
  out.head.put_f32("granite.attention.scale", c.attention_scale);
  out.head.put_f32("granite.residual_scale", c.residual_scale);
  out.head.put_f32("granite.logit_scale", 1 / c.logit_scale);
  interleave_heads(c, out);
}

}  // namespace

const Family kGranite = {"Granite", kHfTypes,          kGgufTypes,  from_hf,
                         from_gguf, llama_tensor_name, build_llama, to_gguf};

}  // namespace skald
