#include "models/windows.h"

#include "engine/error.h"
#include "engine/printable.h"
#include "models/gguf.h"
#include "models/hf_config.h"

namespace skald {
namespace {

void check_count(size_t count, int layers, std::string_view where, std::string_view key) {
  if (count == static_cast<size_t>(layers)) return;
  fail(Exit::Model, where, ": '", key, "' has ", count, " entries for ", layers, " layers");
}

}  // namespace

std::vector<int> windows_by_type(const HfConfig& config, int layers, int window) {
  const std::vector<std::string> types = config.texts("layer_types");
  check_count(types.size(), layers, config.where(), "layer_types");
  std::vector<int> windows;
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      fail(Exit::Model, config.where(), ": 'layer_types' has '", printable(type, 80),
           "', expected full_attention and sliding_attention");
    }
    if (type == "sliding_attention" && window == 0) {
      fail(Exit::Model, config.where(),
           ": 'layer_types' has 'sliding_attention', but there is no 'sliding_window'");
    }
    windows.push_back(type == "sliding_attention" ? window : 0);
  }
  return windows;
}

std::vector<int> windows_by_period(int layers, int window, int64_t period) {
  std::vector<int> windows;
  for (int layer = 0; layer < layers; ++layer) {
    windows.push_back((layer + 1) % period == 0 ? 0 : window);
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
  check_count(windowed.size(), layers, file.path(), key);
  std::vector<int> windows;
  for (const bool has : windowed) windows.push_back(has ? window : 0);
  return windows;
}

}  // namespace skald
