// Llama 1, 2, 3.x and models with the same layers: TinyLlama, OpenLLaMA, CodeLlama, SmolLM2. GGUFs
// of Mistral and Mixtral also have the architecture "llama".
#include "models/families/llama.h"

#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/shared/blocks.h"
#include "models/families/shared/config.h"
#include "models/families/shared/experts.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"llama"};
constexpr std::string_view kGgufTypes[] = {"llama"};

ModelConfig from_hf(const HfConfig& config) { return read_common_hf(config); }

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.experts = read_gguf_experts(file, c.ffn_dim);
  c.rope.interleaved = true;
  return c;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"llama", read_hf_rope(config, c.head_dim), true}, out);
  interleave_heads(c, out);
}

void build_layers(const ModelConfig& c, Blocks& b, std::string_view ffn_norm) {
  for (int layer = 0; layer < c.layers; ++layer) {
    b.norm(b.h(), b.x(), layer, "attn_norm");
    b.attention(layer, b.h());
    b.add();
    b.feed_forward(layer, ffn_norm);
  }
}

Program build(const ModelConfig& c, const WeightFile& file, std::string_view ffn_norm) {
  Blocks b(c, file);
  b.embed();
  for (int loop = 0; loop < c.loops; ++loop) {
    if (loop > 0 && c.loop_norm) b.norm_stream();
    build_layers(c, b, ffn_norm);
  }
  return std::move(b).finish();
}

}  // namespace

std::string llama_tensor_name(std::string_view name) { return tensor_name(name); }

Program build_llama(const ModelConfig& c, const WeightFile& file) {
  return build(c, file, "ffn_norm");
}

Program build_llama_late(const ModelConfig& c, const WeightFile& file) {
  return build(c, file, kLateFfnNorm);
}

const Family kLlama = {"Llama",           kHfTypes,    kGgufTypes, from_hf, from_gguf,
                       llama_tensor_name, build_llama, to_gguf,    nullptr, true};

}  // namespace skald
