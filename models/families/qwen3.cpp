// Qwen3: Llama's layers with a norm of each head's query and key.
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

constexpr std::string_view kHfTypes[] = {"qwen3"};
constexpr std::string_view kGgufTypes[] = {"qwen3"};

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config =
      file.with_defaults(R"({"head_dim": 128, "max_position_embeddings": 32768})");
  ModelConfig c = read_common_hf(config);
  c.mlp_bias = false;
  c.qk_norm = QkNorm::Heads;
  read_qwen_windows(config, c);
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
