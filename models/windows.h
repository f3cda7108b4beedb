// Which layers of a model attend within a window, as configurations say it: a list of the layers'
// types, or all but every so many.
#pragma once

#include <vector>

namespace skald {

class HfConfig;
class GgufFile;

// One a layer: `window` where layer_types has "sliding_attention", 0 where "full_attention".
std::vector<int> windows_by_type(const HfConfig& config, int layers, int window);

// 0 for every `period`-th layer, `window` for the others.
std::vector<int> windows_by_period(int layers, int window, int64_t period);

// By <architecture>.attention.sliding_window_pattern, a period or one bool a layer.
std::vector<int> gguf_windows(const GgufFile& file, int layers, int window, int usual_period);

}  // namespace skald
