// What a model's GGUF file will hold: its metadata but for the tokenizer's, and its tensors, whose
// formats are still to be chosen. Of a Hugging Face folder the family says what is particular
// (Family::to_gguf); a GGUF's own metadata are taken over as they are.
#pragma once

#include <string_view>
#include <vector>

#include "models/families/rope.h"
#include "models/files/gguf_head.h"
#include "models/files/made_tensor.h"
#include "models/open.h"

namespace skald {

struct GgufExport {
  GgufHead head;
  std::vector<MadeTensor> tensors;  // in their source's formats
};

// The model must outlive the result.
GgufExport export_gguf(const OpenedModel& opened);

// Reads back a head that is complete and throws Error(Exit::Model) where it says another model than
// the folder does: what a GGUF has no words for is found here, whatever it is.
void check_export(const OpenedModel& folder, const GgufHead& head,
                  const std::vector<MadeTensor>& tensors);

// For the families.

// What all architectures have: sizes, heads, norm, window and rope. Rope's scaling "llama3" becomes
// the tensor rope_freqs, which not all have.
struct CommonExport {
  std::string_view architecture;  // GGUF's
  RopeConfig rope;                // as it was read
  bool rope_freqs = false;
};
void put_common(const ModelConfig& c, const CommonExport& common, GgufExport& out);

// Where all layers but every so many have the window, and not all but every `usual`: the number.
void put_window_period(const ModelConfig& c, std::string_view architecture, int usual,
                       GgufExport& out);

// Interleaves the heads of all layers' queries and keys.
void interleave_heads(const ModelConfig& c, GgufExport& out);

// Adds what the folder's norm weights lack.
void complete_norms(const ModelConfig& c, GgufExport& out);

}  // namespace skald
