// Qwen3-VL's text part: Qwen3's layers. The vision encoder is ignored.
#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"qwen3_vl", "qwen3_vl_text"};
constexpr std::string_view kGgufTypes[] = {"qwen3vl"};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.rope.base = 5000000;
  defaults.rope.sections = true;
  return defaults;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = text_part(file).with_defaults(R"({"model_type": "qwen3_vl_text",
      "head_dim": 128, "num_key_value_heads": 32, "max_position_embeddings": 128000})");
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.architecture = file.text("model_type");
  c.tied = text_part_is_tied(file);
  c.mlp_bias = false;
  c.qk_norm = QkNorm::Heads;
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.qk_norm = QkNorm::Heads;
  return c;
}

std::string name(std::string_view hf_name) { return tensor_name(text_model_name(hf_name)); }

// The key of the rope's sections must be there, although text does not need it.
void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"qwen3vl", read_hf_rope(text_part(file), c.head_dim, hf_defaults().rope)}, out);
  put_rope_sections(text_part(file), "qwen3vl", out);
}

}  // namespace

const Family kQwen3Vl = {"Qwen3-VL", kHfTypes, kGgufTypes,  from_hf,
                         from_gguf,  name,     build_llama, to_gguf};

}  // namespace skald
