// Hunyuan without experts (0.5B to 7B): Llama's layers with a norm of each head's query and key
// after they rotate.
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

constexpr std::string_view kHfTypes[] = {"hunyuan_v1_dense"};
constexpr std::string_view kGgufTypes[] = {"hunyuan-dense"};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.rope.alpha = true;
  return defaults;
}

void set_norms(ModelConfig& c) {
  c.qk_norm = QkNorm::Heads;
  c.norm_after_rope = true;
}

// Checks settings that the publisher's own code can switch, and that transformers assumes.
void check_layout(const HfConfig& config) {
  if (!config.boolean_or("use_qk_norm", true)) {
    fail(Exit::Model, config.where(), ": 'use_qk_norm' is false, expected true");
  }
  if (config.boolean_or("use_cla", false)) {
    fail(Exit::Model, config.where(), ": 'use_cla' is true, which skald does not support");
  }
}

ModelConfig from_hf(const HfConfig& config) {
  check_layout(config);
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.mlp_bias = false;
  set_norms(c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  set_norms(c);
  return c;
}

std::string name(std::string_view hf_name) {
  constexpr NamePart kParts[] = {{".self_attn.query_layernorm", "attn_q_norm"},
                                 {".self_attn.key_layernorm", "attn_k_norm"}};
  return tensor_name(hf_name, kParts);
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"hunyuan-dense", read_hf_rope(config, c.head_dim, hf_defaults().rope)}, out);
}

}  // namespace

const Family kHunyuan = {"Hunyuan", kHfTypes, kGgufTypes,  from_hf,
                         from_gguf, name,     build_llama, to_gguf};

}  // namespace skald
