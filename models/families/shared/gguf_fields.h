// Shared by the families for writing a model as GGUF: Family::to_gguf fills a GgufExport with
// metadata and completes its tensors.
#pragma once

#include <string_view>
#include <vector>

#include "engine/program/model.h"
#include "models/families/shared/rope.h"
#include "models/files/gguf_head.h"
#include "models/files/made_tensor.h"

namespace skald {

struct GgufExport {
  GgufHead head;
  std::vector<MadeTensor> tensors;  // in the formats of the source
};

// Writes the metadata that all architectures have: sizes, heads, norm, window and rope.
struct CommonExport {
  std::string_view architecture;  // GGUF's name
  RopeConfig rope;                // as read from config.json
  bool rope_freqs =
      false;  // the architecture may have the tensor rope_freqs (llama3, proportional)
  // Where layers differ.
  int head_dim = 0;     // of the key attention.key_length; 0: that of the model
  int value_dim = 0;    // of the key attention.value_length; 0: head_dim
  bool latent = false;  // yarn does not multiply cosines and sines, and its key says nothing of it
  std::vector<int32_t> kv_heads = {};  // of each layer; empty: those of the model
  std::vector<int32_t> ffn_dims = {};  // the same
};
void put_common(const ModelConfig& c, const CommonExport& common, GgufExport& out);

// The key of the norms' epsilon, after "<architecture>.".
std::string_view gguf_norm_eps(NormKind norm);

// Writes the sections of a rope for images, if `config` has some: four numbers, the last ones 0.
void put_rope_sections(const HfConfig& config, std::string_view architecture, GgufExport& out);

// If every n-th layer has no window and n is not `usual`, writes n.
void put_window_period(const ModelConfig& c, std::string_view architecture, int usual,
                       GgufExport& out);

// Interleaves the two halves of each head in the queries and keys of all layers, as GGUF's Llama
// expects.
void interleave_heads(const ModelConfig& c, GgufExport& out);
// The folder's row of each row of such a matrix in the GGUF.
std::vector<int32_t> interleaved_rows(int64_t rows, int heads);

// Adds 1 to the norm weights of families whose folders store them minus 1.
void complete_norms(const ModelConfig& c, GgufExport& out);

}  // namespace skald
