// Which layers of a model attend within a window, and by which rope those rotate, where
// configurations say more than one window for all or a list of the layers' types. (That list is
// read_layer_windows' in models/families/config.h.)
#pragma once

#include <cstdint>
#include <vector>

#include "models/files/hf_config.h"

namespace skald {

struct ModelConfig;
class GgufFile;

// 0 for every `period`-th layer, `window` for the others.
std::vector<int> windows_by_period(int layers, int window, int64_t period);

// By <architecture>.attention.sliding_window_pattern, a period or one bool a layer.
std::vector<int> gguf_windows(const GgufFile& file, int layers, int window, int usual_period);

// Qwen2 and Qwen3: sliding_window counts with use_sliding_window, and from max_window_layers on.
void read_qwen_windows(const HfConfig& config, ModelConfig& c);

// In transformers 5 rope_parameters may hold one object for layers without a window and one for
// those with: the configuration as if it had the first alone.
HfConfig with_full_rope(const HfConfig& config);
// The other one; where the configuration has none, plain rotation by `base`.
void read_window_rope(const HfConfig& config, double base, ModelConfig& c);
// <architecture>.rope.freq_base_swa, else `base`.
void read_window_rope(const GgufFile& file, double base, ModelConfig& c);

}  // namespace skald
