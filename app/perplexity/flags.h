// What `skald perplexity` was asked for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/model/open.h"
#include "engine/perplexity/protocol.h"

namespace skald {

struct PplFlags {
  ModelFlags model;
  std::vector<std::string> files, merge;
  std::string protocol = "llama.cpp", chunks, base, devices;
  std::string jsonl, tokens, plot, checkpoint, save_logits, save_base;
  int64_t base_top = 256;
  bool json = false, llama_format = false;
};

// Throws Error(Exit::Usage) for what cannot go together.
void check_flags(const PplFlags& flags);

// The protocol with the context that it has on this model. Error where the model has less.
PplSettings settled_protocol(const PplFlags& flags, const ModelConfig& config);

// "A:B" are the chunks [A, B), either may be missing; "N" the first N. Error where they are not.
ChunkRange parse_chunk_range(const std::string& text, int64_t count);

}  // namespace skald
