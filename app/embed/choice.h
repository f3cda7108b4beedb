// How a model's texts become vectors: pooling, normalization and the prompts before texts, as the
// model's files say, or else as the flags say.
#pragma once

#include <map>
#include <string>

#include "app/files/json_fwd.h"
#include "engine/schedule/generation.h"
#include "models/open.h"

namespace skald {

class Command;

struct EmbedFlags {
  std::string pooling;  // "mean", "last", "cls"; "": the model's
  bool normalize = false, no_normalize = false;
  std::string prompt_name, prefix;
  bool has_prefix = false;
};

// --pooling, --normalize, --no-normalize, --prompt-name, --prefix
void add_embed_flags(Command& command, EmbedFlags& flags, const std::string& group);

struct EmbedChoice {
  Pooling pooling = Pooling::Last;
  bool normalize = true;
  std::string prefix = {};                              // of texts
  std::string query_prefix = {}, document_prefix = {};  // of rankings

  bool operator==(const EmbedChoice&) const = default;
};

// Reads modules.json, the pooling module's config.json and config_sentence_transformers.json of a
// folder, or <arch>.pooling_type of a GGUF. Where they say nothing, the last token's hidden row is
// the vector, normalized. Throws Error(Exit::Model) for modules that skald has not, and
// Error(Exit::Usage) for a --prompt-name that the model has not.
EmbedChoice choose_embedding(const OpenedModel& opened, const EmbedFlags& flags);

// For a manifest and the hash of requests.
Json embed_settings(const EmbedChoice& choice);

}  // namespace skald
