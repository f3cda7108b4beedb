// The part of a configuration that all Llama-like families spell alike, read from either file kind.
// A family's own file starts from here and adds what it alone has.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/program/model.h"
#include "models/families/rope.h"

namespace skald {

inline constexpr int64_t kMostWindow = 1 << 30;

// What a family has where its config.json says nothing.
struct HfDefaults {
  double norm_eps = 1e-6;
  bool tied = false;
  std::optional<Activation> activation;  // whatever the file calls it
  HfRopeDefaults rope;
};

ModelConfig read_common_hf(const HfConfig& config, const HfDefaults& defaults = {});
void refuse_quantized(const HfConfig& config);  // by another tool
// layer_types: of each layer 0 for "full_attention", `window` for "sliding_attention"; empty where
// the configuration has none.
std::vector<int> read_layer_windows(const HfConfig& config, int layers, int window);

ModelConfig read_common_gguf(const GgufFile& file);  // keys "<general.architecture>.*"

}  // namespace skald
