// SmolLM3: Llama's layers; every fourth layer has no rope.
#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"smollm3"};
constexpr std::string_view kGgufTypes[] = {"smollm3"};
constexpr int kInterval = 4;  // every fourth layer has no rope; GGUF has no key for this

std::vector<bool> every(int64_t interval, int layers) {
  std::vector<bool> unrotated(static_cast<size_t>(layers));
  for (int layer = 0; layer < layers; ++layer) {
    unrotated[static_cast<size_t>(layer)] = (layer + 1) % interval == 0;
  }
  return unrotated;
}

// Despite its name, a 1 in the list means that the layer has rope.
std::vector<bool> read_unrotated(const HfConfig& config, int layers) {
  if (!config.has("no_rope_layers")) {
    return every(config.integer_or("no_rope_layer_interval", kInterval, 1, INT64_MAX), layers);
  }
  std::vector<bool> unrotated;
  for (int64_t rotates : config.integers("no_rope_layers")) unrotated.push_back(rotates == 0);
  if (unrotated.size() < static_cast<size_t>(layers)) {
    fail(Exit::Model, config.where(), ": 'no_rope_layers' has ", unrotated.size(),
         " values, expected one for each of ", layers, " layers");
  }
  unrotated.resize(static_cast<size_t>(layers));
  return unrotated;
}

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.tied = true;
  defaults.rope.base = 2000000;
  return defaults;
}

ModelConfig from_hf(const HfConfig& config) {
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.unrotated = read_unrotated(config, c.layers);
  const int window = static_cast<int>(config.integer_or("sliding_window", 0, 0, kMostWindow));
  c.windows = read_layer_windows(config, c.layers, window);
  if (c.windows.empty() && config.boolean_or("use_sliding_window", false)) {
    for (bool slides : c.unrotated) c.windows.push_back(slides ? window : 0);
  }
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  if (c.window != 0) {
    fail(Exit::Model, file.path(), ": 'smollm3.attention.sliding_window' is ", c.window,
         "; windows are not supported in a GGUF of architecture 'smollm3'");
  }
  c.unrotated = every(kInterval, c.layers);
  c.rope.interleaved = true;
  return c;
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"smollm3", read_hf_rope(config, c.head_dim, hf_defaults().rope)}, out);
  interleave_heads(c, out);
}

}  // namespace

const Family kSmolLM3 = {"SmolLM3",         kHfTypes,    kGgufTypes, from_hf, from_gguf,
                         llama_tensor_name, build_llama, to_gguf,    nullptr, true};

}  // namespace skald
