// Which layers of a model attend within a window where it is all but every so many. (A list of the
// layers' types is read_layer_windows' in models/config.h.)
#pragma once

#include <cstdint>
#include <vector>

namespace skald {

class GgufFile;

// 0 for every `period`-th layer, `window` for the others.
std::vector<int> windows_by_period(int layers, int window, int64_t period);

// By <architecture>.attention.sliding_window_pattern, a period or one bool a layer.
std::vector<int> gguf_windows(const GgufFile& file, int layers, int window, int usual_period);

}  // namespace skald
