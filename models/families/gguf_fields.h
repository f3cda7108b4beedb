// What the families share of writing a model as GGUF: a family's to_gguf fills a GgufExport with
// its metadata and completes its tensors.
#pragma once

#include <string_view>
#include <vector>

#include "engine/program/model.h"
#include "models/families/rope.h"
#include "models/files/gguf_head.h"
#include "models/files/made_tensor.h"

namespace skald {

struct GgufExport {
  GgufHead head;
  std::vector<MadeTensor> tensors;  // in their source's formats
};

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
