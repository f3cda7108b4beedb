// Shared by the families with state spaces (Mamba-2: Granite 4, Nemotron-H): reads their sizes, and
// builds a layer's first half.
#pragma once

#include <string_view>

#include "models/families/shared/blocks.h"

namespace skald {

class GgufFile;
struct GgufExport;

inline constexpr int64_t kMostConvTaps = 64;

// Reads <architecture>.ssm.*, and which layers have a state space: those with its tensors.
SpaceConfig read_gguf_space(const GgufFile& file, int layers);

// Throws if a head's sizes do not agree with one another. `where` names the file.
void check_space(const SpaceSpec& spec, std::string_view where);

// For Family::to_gguf: adds the keys, and brings a folder's tensors into GGUF's layout.
void export_space(const ModelConfig& c, std::string_view architecture, GgufExport& out);

// The state spaces of a program's layers. Weights have GGUF's names; ssm_a.log holds the logarithm
// of minus ssm_a, as Hugging Face's files do.
class SpaceLayers {
 public:
  SpaceLayers(const ModelConfig& config, const WeightFile& file, Blocks& blocks);

  void add(int layer, ActId in);  // h = state space of `in`

 private:
  // A vector of numbers that a file holds as one row, as one column or as a row for each group.
  WeightId numbers(const std::string& name, int64_t count, int64_t rows);

  const ModelConfig& config_;
  const WeightFile& file_;
  Blocks& blocks_;
  ActId gate_, mixed_, convolved_, step_, out_;
};

}  // namespace skald
