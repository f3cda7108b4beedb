// Cohere 2: Command R7B, Command A, Tiny Aya. Attention and feed-forward stand side by side: both
// read one Layer norm, which has no bias. Three of four layers have a window and rope, the fourth
// has neither. Rope is interleaved in both kinds of files.
#include <cmath>

#include "engine/base/error.h"
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

constexpr std::string_view kHfTypes[] = {"cohere2"};
constexpr std::string_view kGgufTypes[] = {"cohere2"};
constexpr int kPeriod = 4;
constexpr int kUsualWindow = 4096;
constexpr std::string_view kReads[] = {"logit_scale"};

HfDefaults hf_defaults() {
  HfDefaults defaults;
  defaults.norm = NormKind::Layer;
  defaults.norm_eps = 1e-5;
  defaults.tied = true;
  defaults.reads = kReads;
  return defaults;
}

float logit_scale(double value, std::string_view where, std::string_view key) {
  const float scale = static_cast<float>(value);
  if (!(scale > 0) || !std::isfinite(scale)) {
    fail(Exit::Model, where, ": '", key, "' is ", value, ", expected more than 0");
  }
  return scale;
}

// Checks settings that all published files have and that build() assumes.
void check_layout(const HfConfig& config) {
  for (const char* key : {"use_parallel_block", "use_gated_activation"}) {
    if (config.boolean_or(key, true)) continue;
    fail(Exit::Model, config.where(), ": '", key, "' is false, expected true");
  }
  if (config.boolean_or("use_qk_norm", false)) {
    fail(Exit::Model, config.where(), ": 'use_qk_norm' is true, expected false");
  }
  const std::string order = config.text_or("order_of_interleaved_layers", "local_first");
  if (order != "local_first") {
    fail(Exit::Model, config.where(), ": 'order_of_interleaved_layers' is '", order,
         "', expected 'local_first'");
  }
  const std::string position = config.text_or("position_embedding_type", "rope_gptj");
  if (position != "rope_gptj") {
    fail(Exit::Model, config.where(), ": 'position_embedding_type' is '", position,
         "', expected 'rope_gptj'");
  }
  const double share = config.number_or("rotary_pct", 1);
  if (share != 1) {
    fail(Exit::Model, config.where(), ": 'rotary_pct' is ", share, ", expected 1");
  }
}

// Layers with a window have rope, the others do not.
void set_windows(std::vector<int> windows, ModelConfig& c) {
  c.windows = std::move(windows);
  for (int window : c.windows) c.unrotated.push_back(window == 0);
  c.rope.interleaved = true;
}

ModelConfig from_hf(const HfConfig& config) {
  ModelConfig c = read_common_hf(config, hf_defaults());
  check_layout(config);
  c.mlp_bias = false;
  c.logit_scale =
      logit_scale(config.number_or("logit_scale", 0.0625), config.where(), "logit_scale");
  c.window = static_cast<int>(config.integer_or("sliding_window", kUsualWindow, 1, kMostWindow));
  std::vector<int> windows = read_layer_windows(config, c.layers, c.window);
  if (windows.empty()) {
    const int64_t period = config.integer_or("sliding_window_pattern", kPeriod, 1, INT32_MAX);
    windows = windows_by_period(c.layers, c.window, period);
  }
  set_windows(std::move(windows), c);
  return c;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig c = read_common_gguf(file, {.norm = NormKind::Layer});
  constexpr std::string_view kScale = "cohere2.logit_scale";
  c.logit_scale = logit_scale(file.metadata().number(std::string(kScale)), file.path(), kScale);
  if (c.window == 0) {
    fail(Exit::Model, file.path(), ": 'cohere2.attention.sliding_window' is missing or 0");
  }
  set_windows(gguf_windows(file, c.layers, c.window, kPeriod), c);
  return c;
}

std::string name(std::string_view hf_name) { return tensor_name(hf_name); }

// The inner half of the feed-forward comes first, so that attention's output product follows
// attention directly: such ops can be fused.
Program build(const ModelConfig& c, const WeightFile& file) {
  Blocks b(c, file);
  b.embed();
  for (int layer = 0; layer < c.layers; ++layer) {
    b.norm(b.h(), b.x(), layer, "attn_norm");
    b.gate(layer, b.h());
    b.attention(layer, b.h());
    b.add();
    b.down(layer);
    b.add();
  }
  return std::move(b).finish();
}

void to_gguf(const HfConfig& config, const ModelConfig& c, GgufExport& out) {
  put_common(c, {"cohere2", read_hf_rope(config, c.head_dim)}, out);
  put_window_period(c, "cohere2", kPeriod, out);
  out.head.put_f32("cohere2.logit_scale", c.logit_scale);
}

}  // namespace

const Family kCohere2 = {"Cohere 2", kHfTypes, kGgufTypes, from_hf,
                         from_gguf,  name,     build,      to_gguf};

}  // namespace skald
