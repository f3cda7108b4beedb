// GLM-4 of April 2025 (9B and 32B): norms before and after each half of a layer, gate and up in one
// matrix, rope on half of each head. Rope is interleaved in both kinds of files.
#include <algorithm>

#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/shared/blocks.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"glm4"};
constexpr std::string_view kGgufTypes[] = {"glm4"};

constexpr std::string_view kDefaults = R"({"head_dim": 128, "num_key_value_heads": 2,
    "max_position_embeddings": 131072, "attention_bias": true, "partial_rotary_factor": 0.5})";

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1.5625e-7;
  defaults.rope.partial = true;
  return defaults;
}

ModelConfig from_hf(const HfConfig& config) {
  ModelConfig c = read_common_hf(config.with_defaults(kDefaults), hf_defaults());
  c.attention_output_bias = c.mlp_bias = false;
  c.rope.interleaved = true;
  return c;
}

// GGUFs of models with a vision part have sections of the rope, and heads whose pairs are (i, i +
// n/2).
bool has_sections(const GgufMetadata& metadata) {
  constexpr std::string_view kKey = "glm4.rope.dimension_sections";
  if (!metadata.find(kKey)) return false;
  const std::vector<int64_t> sections = metadata.ints(kKey);
  return std::any_of(sections.begin(), sections.end(), [](int64_t size) { return size != 0; });
}

ModelConfig from_gguf(const GgufFile& file) {
  constexpr std::string_view kMore = "glm4.nextn_predict_layers";
  if (const uint64_t more = file.metadata().uint_or(kMore, 0)) {
    fail(Exit::Model, file.path(), ": '", kMore, "' is ", more, ", which skald does not support");
  }
  ModelConfig c = read_common_gguf(file);
  c.rope.interleaved = !has_sections(file.metadata());
  return c;
}

std::string name(std::string_view hf_name) {
  constexpr NamePart kParts[] = {{".post_self_attn_layernorm", "post_attention_norm"},
                                 {".post_mlp_layernorm", "post_ffw_norm"}};
  return tensor_name(hf_name, kParts);
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  const HfConfig whole = config.with_defaults(kDefaults);
  put_common(c, {"glm4", read_hf_rope(whole, c.head_dim, hf_defaults().rope)}, out);
}

}  // namespace

const Family kGlm4 = {"GLM-4",   kHfTypes, kGgufTypes,         from_hf,
                      from_gguf, name,     build_norms_around, to_gguf};

}  // namespace skald
