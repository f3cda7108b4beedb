// OLMo 2: norms stand after each half of a layer, not before. One norm covers all of a token's
// queries, another all of its keys. OLMo 3 also has windows in three of four layers, and scales
// only the rope of the fourth. GGUFs of both have the same architecture name.
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

constexpr std::string_view kHfTypes[] = {"olmo2", "olmo3"};
constexpr std::string_view kGgufTypes[] = {"olmo2"};
constexpr int kPeriod = 4;

void read_windows(const HfConfig& config, ModelConfig& c) {
  constexpr int kUsualWindow = 4096;
  const int64_t unsaid = config.mentions("sliding_window") ? 0 : kUsualWindow;
  c.window = static_cast<int>(config.integer_or("sliding_window", unsaid, 0, kMostWindow));
  c.windows = read_layer_windows(config, c.layers, c.window);
  if (c.windows.empty()) c.windows = windows_by_period(c.layers, c.window, kPeriod);
  read_window_rope(config, c.rope_base, c);
}

bool is_windowed(const HfConfig& config) { return config.text("model_type") == "olmo3"; }

HfRopeDefaults rope_defaults(const HfConfig& config) {
  HfRopeDefaults defaults;
  if (is_windowed(config)) defaults.base = 500000;
  return defaults;
}

ModelConfig from_hf(const HfConfig& config) {
  HfDefaults defaults;
  defaults.norm_eps = 1e-5;
  defaults.rope = rope_defaults(config);
  ModelConfig c = read_common_hf(with_full_rope(config), defaults);
  c.mlp_bias = false;
  c.qk_norm = QkNorm::Whole;
  if (is_windowed(config)) read_windows(config, c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file);
  c.qk_norm = QkNorm::Whole;
  if (c.window == 0) return c;
  c.windows = gguf_windows(file, c.layers, c.window, kPeriod);
  read_window_rope(file, c.rope_base, c);
  return c;
}

std::string name(std::string_view hf_name) {
  constexpr NamePart kParts[] = {{".post_attention_layernorm", "post_attention_norm"},
                                 {".post_feedforward_layernorm", "post_ffw_norm"}};
  return tensor_name(hf_name, kParts);
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  const HfConfig full = with_full_rope(config);
  put_common(c, {"olmo2", read_hf_rope(full, c.head_dim, rope_defaults(config))}, out);
  put_window_period(c, "olmo2", kPeriod, out);
  if (c.window_rope_base != c.rope_base && c.window_rope_base != 0) {
    out.head.put_f32("olmo2.rope.freq_base_swa", c.window_rope_base);
  }
}

}  // namespace

const Family kOlmo2 = {"OLMo",    kHfTypes, kGgufTypes,        from_hf,
                       from_gguf, name,     build_norms_after, to_gguf};

}  // namespace skald
