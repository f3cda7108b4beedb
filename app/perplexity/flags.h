// The flags of `skald perplexity`, and the settings that follow from them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/model/open.h"
#include "engine/perplexity/protocol.h"

namespace skald {

struct PplFlags {
  ModelFlags model;
  std::string model_word;  // [MODEL]
  std::vector<std::string> files, merge;
  std::string protocol = "llama.cpp", chunks, base;
  std::string jsonl, tokens, plot, checkpoint, save_logits, save_base;
  int64_t base_top = 256;
  bool json = false, llama_format = false;
};

// Throws Error(Exit::Usage) if flags contradict each other.
void check_flags(const PplFlags& flags);

// The protocol with its context for this model. Throws Error(Exit::Usage) if the context is larger
// than the model's.
PplSettings resolve_protocol(const PplFlags& flags, const ModelConfig& config);

// Parses --chunks. "A:B" is [A, B), where A or B may be missing; "N" is the first N chunks. Throws
// Error(Exit::Usage) if the text does not have these chunks.
ChunkRange parse_chunk_range(const std::string& text, int64_t count);

}  // namespace skald
