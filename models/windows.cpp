#include "models/windows.h"

#include "engine/error.h"
#include "models/gguf.h"

namespace skald {
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
  if (windowed.size() != static_cast<size_t>(layers)) {
    fail(Exit::Model, file.path(), ": '", key, "' has ", windowed.size(),
         " values, expected one for each of ", layers, " layers");
  }
  std::vector<int> windows;
  for (const bool has : windowed) windows.push_back(has ? window : 0);
  return windows;
}

}  // namespace skald
