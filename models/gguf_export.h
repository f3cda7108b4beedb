// What a model's GGUF file will hold: its metadata but for the tokenizer's, and its tensors, whose
// formats are still to be chosen. Of a Hugging Face folder the family says what is particular
// (Family::to_gguf); a GGUF's own metadata are taken over as they are.
#pragma once

#include <string_view>
#include <vector>

#include "models/gguf_head.h"
#include "models/made_tensor.h"
#include "models/open.h"

namespace skald {

class HfConfig;

struct GgufExport {
  GgufHead head;
  std::vector<MadeTensor> tensors;  // in their source's formats
};

// The model must outlive the result. Throws Error(Exit::Model) for what a GGUF cannot say.
GgufExport export_gguf(const OpenedModel& opened);

// For the families.

// What all architectures have: sizes, heads, norm and rope. Of rope's scalings "linear" is written;
// "llama3" becomes the tensor rope_freqs, which only the architectures have that say so.
struct CommonExport {
  std::string_view architecture;  // GGUF's
  bool rope_tensor = false;
};
void put_common(const HfConfig& config, const ModelConfig& c, const CommonExport& common,
                GgufExport& out);

// Interleaves heads of all layers' weights and biases called "blk.N.<part>.".
void interleave_heads(std::string_view part, int heads, GgufExport& out);

}  // namespace skald
