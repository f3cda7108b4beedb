// Reads the settings that all Llama-like families write in the same way, from a config.json or a
// GGUF. Each family's file reads the rest.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/program/model.h"
#include "models/families/shared/rope.h"

namespace skald {

inline constexpr int64_t kMostHeads = 4096;
inline constexpr int64_t kMostHeadDim = 1024;
inline constexpr int64_t kMostWindow = 1 << 30;

// A family's values for keys that its config.json may omit.
struct HfDefaults {
  double norm_eps = 1e-6;
  bool tied = false;
  std::optional<Activation> activation;  // overrides the file's name for it
  HfRopeDefaults rope;
  NormKind norm = NormKind::Rms;
  // The key of the norms' epsilon. Empty: layer_norm_eps for Layer norms, rms_norm_eps for Rms
  // norms.
  std::string_view norm_eps_key = {};
  // The factors and caps (kFactors in config.cpp) that the family itself reads. Any other factor or
  // cap that would change the result is an error.
  std::span<const std::string_view> reads = {};
};

ModelConfig read_common_hf(const HfConfig& config, const HfDefaults& defaults = {});
// Throws if a key has another value than the one that the family computes with.
struct OnlyValue {
  std::string_view key, value;
};
void refuse_other_values(const HfConfig& config, std::initializer_list<OnlyValue> values);
// The configuration of the text model in a model with a vision part: text_config, or `file` itself
// if its keys stand beside those of the vision part. The models share one embedding and output if
// either level says so: writers leave the other level at its default, false.
HfConfig text_part(const HfConfig& file);
bool text_part_is_tied(const HfConfig& file);
// Reads layer_types: per layer 0 for "full_attention" and `window` for "sliding_attention". Empty
// if the configuration has no layer_types.
std::vector<int> read_layer_windows(const HfConfig& config, int layers, int window);

// Takes away the last layers that only predict further tokens
// (<architecture>.nextn_predict_layers).
void leave_out_predicting_layers(const GgufFile& file, ModelConfig& c);

// Sets the rope of all layers, or of those without a window. Throws if it gives no usable
// rotations.
void set_rope(ModelConfig& c, const RopeConfig& rope, std::string_view where);

// Keys "<general.architecture>.*".
struct GgufReads {
  NormKind norm = NormKind::Rms;
  // Numbers of key-value heads and widths of the feed-forward may differ between layers. Those of
  // the first layer that has some are read.
  bool lists = false;
  bool latent = false;  // attention.key_length and value_length belong to latents and are not read
};
ModelConfig read_common_gguf(const GgufFile& file, const GgufReads& reads = {});
// The number of the key "<general.architecture>.<key>". Throws if it is not within the bounds.
int gguf_integer(const GgufFile& file, std::string_view key, int64_t least, int64_t most);
// A number that may be a list with one for each layer; 0 where the layer is missing.
int64_t gguf_number_of_layer(const GgufFile& file, const std::string& key, int layer);

}  // namespace skald
