// Reads the part of a configuration that all Llama-like families write in the same way, from a
// config.json or a GGUF. Each family's file adds the rest.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/program/model.h"
#include "models/families/rope.h"

namespace skald {

inline constexpr int64_t kMostWindow = 1 << 30;

// A family's values for keys that its config.json may omit.
struct HfDefaults {
  double norm_eps = 1e-6;
  bool tied = false;
  std::optional<Activation> activation;  // overrides the file's name for it
  HfRopeDefaults rope;
};

ModelConfig read_common_hf(const HfConfig& config, const HfDefaults& defaults = {});
void refuse_quantized(const HfConfig& config);  // throws if another tool quantized the model
// Reads layer_types: per layer 0 for "full_attention" and `window` for "sliding_attention". Empty
// if the configuration has no layer_types.
std::vector<int> read_layer_windows(const HfConfig& config, int layers, int window);

ModelConfig read_common_gguf(const GgufFile& file);  // keys "<general.architecture>.*"

}  // namespace skald
