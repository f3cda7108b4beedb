// Mistral, Nemo, Small and Ministral: Llama's layers, with windows in all or some of them; the
// heads' total width may differ from the model's width. Mistral 3 adds a vision encoder, which is
// ignored. The queries of Ministral 3 and Devstral 2 grow with their position.
#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "models/families/families.h"
#include "models/families/llama.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"mistral", "ministral", "ministral3", "mistral3"};
constexpr std::string_view kGgufTypes[] = {"mistral3"};  // other GGUFs have "llama"

constexpr std::string_view kGrowth = "llama_4_scaling_beta";
constexpr const char* kRope = "rope_parameters";

bool grows(const HfConfig& config) { return config.text("model_type") == "ministral3"; }

HfDefaults hf_defaults(const HfConfig& config) {
  HfDefaults defaults;
  if (!grows(config)) return defaults;
  defaults.norm_eps = 1e-5;
  defaults.rope.base = 1e6;
  defaults.rope.reads = kGrowth;
  return defaults;
}

QueryGrowth growth(double rate, int64_t length, std::string_view where, std::string_view key) {
  if (!(rate >= 0) || !std::isfinite(static_cast<float>(rate))) {
    fail(Exit::Model, where, ": '", key, "' is ", rate, ", expected 0 or more");
  }
  return {static_cast<float>(rate), static_cast<int>(length)};
}

QueryGrowth read_growth(const HfConfig& config) {
  if (!config.has(kRope)) fail(Exit::Model, config.where(), ": '", kRope, "' is missing");
  const HfConfig rope = config.object(kRope);
  const int64_t length = rope.integer("original_max_position_embeddings", 1, INT32_MAX);
  return growth(rope.number(kGrowth), length, rope.where(), kGrowth);
}

ModelConfig read_text_model(const HfConfig& config) {
  ModelConfig c = read_common_hf(config, hf_defaults(config));
  if (grows(config)) c.query_growth = read_growth(config);
  // The models have no biases, whatever the configuration says.
  c.attention_bias = c.attention_output_bias = c.mlp_bias = false;
  // A missing key means a window of 4096 or, in ministral3, no window; null means no window.
  const int64_t unsaid = config.mentions("sliding_window") || grows(config) ? 0 : 4096;
  c.window = static_cast<int>(config.integer_or("sliding_window", unsaid, 0, kMostWindow));
  c.windows = read_layer_windows(config, c.layers, c.window);
  const auto same = [&](int window) { return window == c.window; };
  if (c.architecture != "ministral" && !std::all_of(c.windows.begin(), c.windows.end(), same)) {
    fail(Exit::Model, config.where(),
         ": 'layer_types' says something else than 'sliding_window', which counts for all layers "
         "of '",
         c.architecture, "'; layers that differ are called 'ministral'");
  }
  return c;
}

ModelConfig from_hf(const HfConfig& config) {
  if (config.text("model_type") != "mistral3") return read_text_model(config);
  const HfConfig text = text_part(config);
  const std::string type = text.text_or("model_type", "mistral");
  if (type != "mistral" && type != "ministral" && type != "ministral3") {
    fail(Exit::Model, text.where(), ": the architecture '", type,
         "' is not supported; these are: mistral, ministral, ministral3");
  }
  return read_text_model(text);
}

QueryGrowth read_growth(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  constexpr std::string_view kRate = "mistral3.attention.temperature_scale";
  const double rate = metadata.number_or(kRate, 0);
  if (rate == 0) return {};
  std::string_view key = "mistral3.attention.temperature_length";
  if (!metadata.find(key)) key = "mistral3.rope.scaling.original_context_length";
  const uint64_t length = metadata.uint(key);
  if (length == 0 || length > INT32_MAX) {
    fail(Exit::Model, file.path(), ": '", key, "' is ", length, ", expected 1 to ", INT32_MAX);
  }
  return growth(rate, static_cast<int64_t>(length), file.path(), kRate);
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.query_growth = read_growth(file);
  c.rope.interleaved = true;
  return c;
}

std::string text_tensor_name(std::string_view name) {
  return llama_tensor_name(text_model_name(name));
}

// GGUF's architecture "llama" has no key for a window, but skald reads one there.
void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  const bool inside = config.text("model_type") == "mistral3";
  const HfConfig text = inside ? text_part(config) : config;
  const bool grows = c.query_growth.rate != 0;
  const RopeConfig rope = read_hf_rope(text, c.head_dim, hf_defaults(text).rope);
  put_common(c, {grows ? "mistral3" : "llama", rope, true}, out);
  if (grows) {
    out.head.put_f32("mistral3.attention.temperature_scale", c.query_growth.rate);
    // Other readers take the rope's factor from this key.
    out.head.put_f32("mistral3.rope.scaling.yarn_log_multiplier",
                     text.object(kRope).number_or("mscale_all_dim", 0));
  }
  interleave_heads(c, out);
}

}  // namespace

const Family kMistral = {"Mistral",        kHfTypes,    kGgufTypes, from_hf, from_gguf,
                         text_tensor_name, build_llama, to_gguf,    nullptr, true};

}  // namespace skald
