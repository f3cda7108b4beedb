// OLMo 2: norms stand after each half of a layer, not before, and one norm is of all of a token's
// queries together, another of its keys.
#include "engine/error.h"
#include "models/blocks.h"
#include "models/config.h"
#include "models/families.h"
#include "models/gguf.h"
#include "models/gguf_export.h"
#include "models/hf_config.h"
#include "models/names.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"olmo2"};
constexpr std::string_view kGgufTypes[] = {"olmo2"};

ModelConfig from_hf(const HfConfig& config) {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  ModelConfig c = read_common_hf(config, defaults);
  c.mlp_bias = false;
  c.qk_norm = QkNorm::Whole;
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.qk_norm = QkNorm::Whole;
  if (c.window != 0) {  // OLMo 3, which GGUF gives the same name
    fail(Exit::Model, file.path(), ": 'olmo2.attention.sliding_window' is ", c.window,
         "; windows, as OLMo 3 has them, are not supported in architecture 'olmo2'");
  }
  return c;
}

std::string name(std::string_view hf_name) {
  constexpr NamePart kParts[] = {{".post_attention_layernorm", "post_attention_norm"},
                                 {".post_feedforward_layernorm", "post_ffw_norm"}};
  return tensor_name(hf_name, kParts);
}

Program build(const ModelConfig& c, const WeightFile& file) {
  Blocks b(c, file);
  b.embed();
  for (int layer = 0; layer < c.layers; ++layer) {
    b.attention(layer, b.x());
    b.norm(b.h(), b.h(), layer, "post_attention_norm");
    b.add();
    b.mlp(layer, b.x());
    b.norm(b.h(), b.h(), layer, "post_ffw_norm");
    b.add();
  }
  return std::move(b).finish();
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"olmo2", read_hf_rope(config, c.head_dim)}, out);
}

}  // namespace

const Family kOlmo2 = {"OLMo 2", kHfTypes, kGgufTypes, from_hf, from_gguf, name, build, to_gguf};

}  // namespace skald
