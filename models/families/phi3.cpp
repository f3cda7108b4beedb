// Phi-3, Phi-3.5, Phi-4 and Phi-4-mini: Llama's layers with fused matrices, windows and rope
// scaling longrope. Phi-4-mini rotates only a part of each head.
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"phi3"};
constexpr std::string_view kGgufTypes[] = {"phi3"};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.rope.original_context = 4096;
  defaults.rope.partial = true;
  defaults.rope.yarn_is_longrope = true;
  return defaults;
}

ModelConfig from_hf(const HfConfig& config) {
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.window = static_cast<int>(config.integer_or("sliding_window", 0, 0, kMostWindow));
  // The models have no biases, whatever the configuration says.
  c.attention_bias = c.attention_output_bias = c.mlp_bias = false;
  return c;
}

ModelConfig from_gguf(const GgufFile& file) { return read_common_gguf(file); }

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"phi3", read_hf_rope(config, c.head_dim, hf_defaults().rope)}, out);
}

}  // namespace

const Family kPhi3 = {"Phi-3",   kHfTypes,          kGgufTypes,  from_hf,
                      from_gguf, llama_tensor_name, build_llama, to_gguf};

}  // namespace skald
