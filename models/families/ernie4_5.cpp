// ERNIE 4.5 without experts: Llama's layers. Rope is interleaved in both kinds of files.
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"ernie4_5"};
constexpr std::string_view kGgufTypes[] = {"ernie4_5"};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.tied = true;
  defaults.rope.base = 500000;
  return defaults;
}

ModelConfig from_hf(const HfConfig& file) {
  const HfConfig config =
      file.with_defaults(R"({"head_dim": 128, "max_position_embeddings": 131072})");
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.attention_bias = c.attention_output_bias = c.mlp_bias = config.boolean_or("use_bias", false);
  c.rope.interleaved = true;
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.rope.interleaved = true;
  return c;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"ernie4_5", read_hf_rope(config, c.head_dim, hf_defaults().rope)}, out);
}

}  // namespace

const Family kErnie45 = {"ERNIE 4.5", kHfTypes,          kGgufTypes,  from_hf,
                         from_gguf,   llama_tensor_name, build_llama, to_gguf};

}  // namespace skald
