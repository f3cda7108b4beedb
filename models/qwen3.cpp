// Qwen3: Llama's layers with a norm of each head's query and key.
#include "engine/error.h"
#include "models/config.h"
#include "models/families.h"
#include "models/gguf.h"
#include "models/gguf_export.h"
#include "models/hf_config.h"
#include "models/llama.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"qwen3"};
constexpr std::string_view kGgufTypes[] = {"qwen3"};

// sliding_window counts only with use_sliding_window, which no published model sets.
void set_windows(const HfConfig& config, ModelConfig& c) {
  const bool used = config.boolean_or("use_sliding_window", false);
  c.window = used ? static_cast<int>(config.integer_or("sliding_window", 0, 1, kMostWindow)) : 0;
  c.windows = read_layer_windows(config, c.layers, c.window);
  if (c.windows.empty() && c.window != 0) {
    const int64_t first = config.integer("max_window_layers", 0, INT64_MAX);
    for (int layer = 0; layer < c.layers; ++layer) {
      c.windows.push_back(layer >= first ? c.window : 0);
    }
  }
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config = file.with_defaults(R"({"head_dim": 128, "sliding_window": 4096,
      "max_window_layers": 28, "max_position_embeddings": 32768})");
  ModelConfig c = read_common_hf(config);
  c.mlp_bias = false;
  c.qk_norm = QkNorm::Heads;
  set_windows(config, c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.qk_norm = QkNorm::Heads;
  if (c.window != 0 && c.window < c.context) {
    fail(Exit::Model, file.path(), ": 'qwen3.attention.sliding_window' is ", c.window,
         "; windows are not supported in a GGUF of architecture 'qwen3'");
  }
  c.window = 0;
  return c;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"qwen3", read_hf_rope(config, c.head_dim)}, out);
}

}  // namespace

const Family kQwen3 = {"Qwen3",   kHfTypes,          kGgufTypes,  from_hf,
                       from_gguf, llama_tensor_name, build_llama, to_gguf};

}  // namespace skald
