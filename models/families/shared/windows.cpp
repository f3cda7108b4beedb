#include "models/families/shared/windows.h"

#include <cmath>

#include "engine/base/error.h"
#include "models/families/shared/config.h"
#include "models/families/shared/rope.h"
#include "models/files/gguf.h"

namespace skald {
namespace {

constexpr const char* kRopes = "rope_parameters";
constexpr const char* kFull = "full_attention";
constexpr const char* kWindowed = "sliding_attention";

// True if rope_parameters has an object per type of layer.
bool has_both_ropes(const HfConfig& config) {
  if (!config.has(kRopes)) return false;
  const HfConfig both = config.object(kRopes);
  return both.has(kFull) && both.has(kWindowed);
}

void set_window_rope(double base, std::string_view where, ModelConfig& c) {
  c.window_rope_base = static_cast<float>(base);
  c.window_rope.inv_freq = rope_frequencies(base, c.head_dim, {});
  for (float frequency : c.window_rope.inv_freq) {
    if (base > 0 && std::isfinite(frequency)) continue;
    fail(Exit::Model, where, ": the rope base of layers with a window is ", base,
         ", expected more than 0");
  }
}

}  // namespace

std::vector<int> windows_by_period(int layers, int window, int64_t period) {
  std::vector<int> windows(static_cast<size_t>(layers));
  for (int layer = 0; layer < layers; ++layer) {
    windows[static_cast<size_t>(layer)] = (layer + 1) % period == 0 ? 0 : window;
  }
  return windows;
}

std::vector<int> gguf_windows(const GgufFile& file, int layers, int window, int usual_period) {
  const GgufMetadata& metadata = file.metadata();
  const std::string key =
      concat(metadata.text("general.architecture"), ".attention.sliding_window_pattern");
  const GgufValue* value = metadata.find(key);
  if (!value) return windows_by_period(layers, window, usual_period);
  if (!value->is_array()) {
    const uint64_t period = metadata.uint(key);
    if (period == 0 || period > INT32_MAX) {
      fail(Exit::Model, file.path(), ": '", key, "' is ", period, ", expected 1 or more");
    }
    return windows_by_period(layers, window, static_cast<int64_t>(period));
  }
  const std::vector<bool> windowed = metadata.booleans(key);
  if (windowed.size() != static_cast<size_t>(layers)) {
    fail(Exit::Model, file.path(), ": '", key, "' has ", windowed.size(),
         " values, expected one for each of ", layers, " layers");
  }
  std::vector<int> windows;
  windows.reserve(windowed.size());
  for (const bool has : windowed) windows.push_back(has ? window : 0);
  return windows;
}

void read_qwen_windows(const HfConfig& config, ModelConfig& c) {
  constexpr int kUsualWindow = 4096, kUsualFirst = 28;
  c.window = 0;
  if (config.boolean_or("use_sliding_window", false)) {
    const int64_t unsaid = config.mentions("sliding_window") ? 0 : kUsualWindow;
    c.window = static_cast<int>(config.integer_or("sliding_window", unsaid, 1, kMostWindow));
  }
  c.windows = read_layer_windows(config, c.layers, c.window);
  if (!c.windows.empty() || c.window == 0) return;
  const int64_t first = config.integer_or("max_window_layers", kUsualFirst, 0, INT64_MAX);
  for (int layer = 0; layer < c.layers; ++layer) {
    c.windows.push_back(layer >= first ? c.window : 0);
  }
}

HfConfig with_full_rope(const HfConfig& config) {
  if (!has_both_ropes(config)) return config;
  return config.with(kRopes, config.object(kRopes).object(kFull));
}

void read_window_rope(const HfConfig& config, double base, ModelConfig& c) {
  if (!has_both_ropes(config)) return set_window_rope(base, config.where(), c);
  const HfConfig both = config.object(kRopes);
  HfRopeDefaults defaults;
  defaults.base = base;
  const HfConfig windowed = both.object(kWindowed);
  const RopeConfig rope = read_hf_rope(both.with(kRopes, windowed), c.head_dim, defaults);
  if (rope.scaling.type != "none") {
    fail(Exit::Model, windowed.where(), ": rope type '", rope.scaling.type,
         "' is not supported for layers with a window; expected default");
  }
  set_window_rope(rope.base, windowed.where(), c);
}

void read_window_rope(const GgufFile& file, double base, ModelConfig& c) {
  const std::string key =
      concat(file.metadata().text("general.architecture"), ".rope.freq_base_swa");
  set_window_rope(file.metadata().number_or(key, base), file.path(), c);
}

}  // namespace skald
