// EXAONE 4: norms stand after each half of a layer, not before; queries and keys are normed head by
// head. In the 32B, three of four layers have a window and rope; the fourth has neither. The 1.2B
// has no windows, and rope in every layer.
#include <utility>
#include <vector>

#include "models/families/families.h"
#include "models/families/shared/blocks.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/families/shared/windows.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr std::string_view kHfTypes[] = {"exaone4"};
constexpr std::string_view kGgufTypes[] = {"exaone4"};
constexpr int kPeriod = 4;

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  return defaults;
}

// In a model with windows, layers without one do not rotate.
void set_windows(std::vector<int> windows, ModelConfig& c) {
  c.windows = std::move(windows);
  for (int window : c.windows) c.unrotated.push_back(window == 0);
}

std::vector<int> read_windows(const HfConfig& config, const ModelConfig& c) {
  std::vector<int> windows = read_layer_windows(config, c.layers, c.window);
  if (!windows.empty()) return windows;
  constexpr const char* kKey = "sliding_window_pattern";
  return windows_by_period(c.layers, c.window, config.integer_or(kKey, kPeriod, 1, INT32_MAX));
}

ModelConfig from_hf(const HfConfig& config) {
  ModelConfig c = read_common_hf(config, hf_defaults());
  c.attention_bias = c.attention_output_bias = c.mlp_bias = false;
  c.qk_norm = QkNorm::Heads;
  const int64_t unsaid = config.mentions("sliding_window") ? 0 : 4096;
  c.window = static_cast<int>(config.integer_or("sliding_window", unsaid, 0, kMostWindow));
  if (c.window != 0) set_windows(read_windows(config, c), c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.qk_norm = QkNorm::Heads;
  if (c.window != 0) set_windows(gguf_windows(file, c.layers, c.window, kPeriod), c);
  return c;
}

std::string name(std::string_view hf_name) {
  constexpr NamePart kParts[] = {{".post_attention_layernorm", "post_attention_norm"},
                                 {".post_feedforward_layernorm", "post_ffw_norm"}};
  return tensor_name(hf_name, kParts);
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"exaone4", read_hf_rope(config, c.head_dim), true}, out);
  put_window_period(c, "exaone4", kPeriod, out);
}

}  // namespace

const Family kExaone4 = {"EXAONE 4", kHfTypes, kGgufTypes,        from_hf,
                         from_gguf,  name,     build_norms_after, to_gguf};

}  // namespace skald
