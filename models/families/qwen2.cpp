// Qwen1.5, Qwen2 and Qwen2.5: Llama's layers with biases of q, k and v, which no file mentions.
#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/windows.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"qwen2"};
constexpr std::string_view kGgufTypes[] = {"qwen2"};

ModelConfig from_hf(const HfConfig& config) {
  ModelConfig c = read_common_hf(config);
  c.attention_bias = true;
  c.attention_output_bias = false;
  c.mlp_bias = false;
  read_qwen_windows(config, c);
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
         "; windows are not supported in a GGUF of architecture 'qwen2'");
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
