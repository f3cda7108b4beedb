// The text part of Qwen2-VL and Qwen2.5-VL: Qwen2's layers. The vision encoder is ignored.
#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/families/shared/windows.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl",
                                         "qwen2_vl_text"};
constexpr std::string_view kGgufTypes[] = {"qwen2vl"};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.rope.base = 1000000;
  defaults.rope.sections = true;
  return defaults;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = text_part(file).with_defaults(R"({"model_type": "qwen2_5_vl_text",
      "num_key_value_heads": 8, "max_position_embeddings": 32768, "max_window_layers": 80})");
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.architecture = file.text("model_type");
  c.tied = text_part_is_tied(file);
  c.attention_bias = true;
  c.attention_output_bias = c.mlp_bias = false;
  read_qwen_windows(config, c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.attention_bias = true;
  if (c.window != 0 && c.window < c.context) {
    fail(Exit::Model, file.path(), ": 'qwen2vl.attention.sliding_window' is ", c.window,
         "; windows are not supported in a GGUF of architecture 'qwen2vl'");
  }
  c.window = 0;
  return c;
}

std::string name(std::string_view hf_name) { return tensor_name(text_model_name(hf_name)); }

// The key of the rope's sections must be there, although text does not need it.
void to_gguf(const HfConfig& file, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"qwen2vl", read_hf_rope(text_part(file), c.head_dim, hf_defaults().rope)}, out);
  put_rope_sections(text_part(file), "qwen2vl", out);
}

}  // namespace

const Family kQwen2Vl = {"Qwen2-VL", kHfTypes, kGgufTypes,  from_hf,
                         from_gguf,  name,     build_llama, to_gguf};

}  // namespace skald
