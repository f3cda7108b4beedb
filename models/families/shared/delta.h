// Shared by the families with gated delta nets (Qwen3-Next, Qwen3.5): reads their sizes, and builds
// a layer's first half.
#pragma once

#include <optional>
#include <string_view>

#include "models/families/shared/blocks.h"

namespace skald {

class GgufFile;
class HfConfig;
struct GgufExport;

// Reads linear_num_key_heads and the like, and which layers have a net: layer_types or
// full_attention_interval.
DeltaConfig read_hf_delta(const HfConfig& config, int layers);
// Reads <architecture>.ssm.*, and the layers. `order` is that of the architecture's files.
DeltaConfig read_gguf_delta(const GgufFile& file, int layers, HeadOrder order);

// For Family::to_gguf: adds the keys, and brings a folder's tensors into the layout of the
// architecture's GGUFs, whose heads of values have the order `order`.
void export_delta(const ModelConfig& c, std::string_view architecture, HeadOrder order,
                  GgufExport& out);

// The nets of a program's layers. Weights have GGUF's names. Two further layouts are read too:
// ssm_ba holds the rows of ssm_beta and ssm_alpha, and ssm_in those of attn_qkv and attn_gate, key
// head by key head. ssm_a.log holds the logarithm of minus ssm_a, as Hugging Face's files do.
class DeltaLayers {
 public:
  DeltaLayers(const ModelConfig& config, const WeightFile& file, Blocks& blocks);

  void add(int layer, ActId in);  // h = net of `in`

 private:
  void projections(int layer, ActId in);

  const ModelConfig& config_;
  const WeightFile& file_;
  Blocks& blocks_;
  ActId mixed_, convolved_, gate_, decay_, beta_, out_;
  std::optional<ActId> all_, both_;  // the outputs of joined matrices, if a file has such matrices
};

}  // namespace skald
