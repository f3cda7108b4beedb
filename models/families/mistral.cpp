// Mistral, Nemo, Small and Ministral: Llama's layers, with windows in all or some of them; the
// heads' total width may differ from the model's width. Mistral 3 adds a vision encoder, which is
// ignored.
#include <algorithm>

#include "engine/base/error.h"
#include "models/families/config.h"
#include "models/families/families.h"
#include "models/families/gguf_fields.h"
#include "models/families/llama.h"
#include "models/families/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"mistral", "ministral", "mistral3"};
constexpr std::string_view kGgufTypes[] = {"mistral3"};  // other GGUFs have "llama"

ModelConfig read_text_model(const HfConfig& config) {
  ModelConfig c = read_common_hf(config);
  // The models have no biases, whatever the configuration says.
  c.attention_bias = c.attention_output_bias = c.mlp_bias = false;
  // A missing key means a window of 4096, null means no window.
  const int64_t unsaid = config.mentions("sliding_window") ? 0 : 4096;
  c.window = static_cast<int>(config.integer_or("sliding_window", unsaid, 0, kMostWindow));
  c.windows = read_layer_windows(config, c.layers, c.window);
  const auto same = [&](int window) { return window == c.window; };
  if (c.architecture == "mistral" && !std::all_of(c.windows.begin(), c.windows.end(), same)) {
    fail(Exit::Model, config.where(),
         ": 'layer_types' says something else than 'sliding_window', which counts for all layers "
         "of 'mistral'; layers that differ are called 'ministral'");
  }
  return c;
}

ModelConfig from_hf(const HfConfig& config) {
  if (config.text("model_type") != "mistral3") return read_text_model(config);
  const HfConfig text = config.object("text_config");
  const std::string type = text.text_or("model_type", "mistral");
  if (type != "mistral" && type != "ministral") {
    fail(Exit::Model, text.where(), ": the architecture '", type,
         "' is not supported; these are: mistral, ministral");
  }
  return read_text_model(text);
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  if (file.metadata().number_or("mistral3.attention.temperature_scale", 0) != 0) {
    fail(Exit::Model, file.path(),
         ": queries that are scaled by their position ('mistral3.attention.temperature_scale') "
         "are not supported");
  }
  c.rope.interleaved = true;
  return c;
}

std::string text_tensor_name(std::string_view name) {
  return llama_tensor_name(text_model_name(name));
}

// GGUF's architecture "llama" has no key for a window, but skald reads one there.
void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  const bool inside = config.text("model_type") == "mistral3";
  const HfConfig text = inside ? config.object("text_config") : config;
  put_common(c, {"llama", read_hf_rope(text, c.head_dim), true}, out);
  interleave_heads(c, out);
}

}  // namespace

const Family kMistral = {"Mistral", kHfTypes,         kGgufTypes,  from_hf,
                         from_gguf, text_tensor_name, build_llama, to_gguf};

}  // namespace skald
