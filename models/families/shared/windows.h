// Reads which layers have a window, and which rope those layers use, for families whose
// configuration has its own way to say so. (read_layer_windows() in models/families/shared/config.h
// reads the common list layer_types.)
#pragma once

#include <cstdint>
#include <vector>

#include "models/files/hf_config.h"

namespace skald {

struct ModelConfig;
class GgufFile;

// 0 for every `period`-th layer, `window` for the others.
std::vector<int> windows_by_period(int layers, int window, int64_t period);

// Reads <architecture>.attention.sliding_window_pattern, a period or one bool per layer.
std::vector<int> gguf_windows(const GgufFile& file, int layers, int window, int usual_period);

// Qwen2 and Qwen3: with use_sliding_window, layers from max_window_layers on have sliding_window.
void read_qwen_windows(const HfConfig& config, ModelConfig& c);

// In transformers 5, rope_parameters may hold two objects: one for layers without a window and one
// for layers with a window. Returns the configuration with the first object only.
HfConfig with_full_rope(const HfConfig& config);
// Reads the second object; without one, layers with a window use an unscaled rope with `base`.
void read_window_rope(const HfConfig& config, double base, ModelConfig& c);
// Reads <architecture>.rope.freq_base_swa, else uses `base`.
void read_window_rope(const GgufFile& file, double base, ModelConfig& c);

}  // namespace skald
