// Qwen1.5, Qwen2 and Qwen2.5: Llama's layers with biases of q, k and v, whatever the files say.
#include "engine/error.h"
#include "engine/printable.h"
#include "models/config.h"
#include "models/families.h"
#include "models/gguf.h"
#include "models/gguf_export.h"
#include "models/hf_config.h"
#include "models/llama.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"qwen2"};
constexpr std::string_view kGgufTypes[] = {"qwen2"};

// sliding_window counts only with use_sliding_window, which no published model sets, and then only
// for layers from max_window_layers on; layer_types, where given, overrides all of that.
void refuse_windows(const HfConfig& config, const ModelConfig& c) {
  if (config.has("layer_types")) {
    for (const std::string& type : config.texts("layer_types")) {
      if (type == "full_attention") continue;
      fail(Exit::Model, config.where(), ": 'layer_types' has '", printable(type, 80),
           "', which is not supported in architecture 'qwen2'; expected 'full_attention' alone");
    }
    return;
  }
  const bool null_window = config.mentions("sliding_window") && !config.has("sliding_window");
  if (!config.boolean_or("use_sliding_window", false) || null_window) return;
  const int64_t window = config.integer_or("sliding_window", 4096, 0, INT64_MAX);
  const int64_t first = config.integer_or("max_window_layers", 28, 0, INT64_MAX);
  if (window >= c.context || first >= c.layers) return;  // it hides nothing
  fail(Exit::Model, config.where(), ": 'use_sliding_window' is true: a window of ", window,
       " in the layers from ", first, " on is not supported in architecture 'qwen2'");
}

ModelConfig from_hf(const HfConfig& config) {
  ModelConfig c = read_common_hf(config);
  c.attention_bias = true;
  c.attention_output_bias = false;
  c.mlp_bias = false;
  refuse_windows(config, c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  for (const char* name : {"output.bias", "rope_freqs.weight"}) {
    if (!file.find(name)) continue;
    fail(Exit::Model, file.path(), ": tensor '", name,
         "' is not supported in architecture 'qwen2'");
  }
  ModelConfig c = read_common_gguf(file);
  c.attention_bias = true;
  if (c.window != 0 && c.window < c.context) {
    fail(Exit::Model, file.path(), ": 'qwen2.attention.sliding_window' is ", c.window,
         "; windows are not supported in architecture 'qwen2'");
  }
  c.window = 0;
  return c;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"qwen2", read_hf_rope(config, c.head_dim)}, out);
}

}  // namespace

const Family kQwen2 = {"Qwen2",   kHfTypes,          kGgufTypes,  from_hf,
                       from_gguf, llama_tensor_name, build_llama, to_gguf};

}  // namespace skald
