// Opens a model's tokenizer, from its GGUF or from the files beside its config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "models/open.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

struct ModelTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<int32_t> stop_ids;  // tokens that end a text: EOS, and others that the files name
};

ModelTokenizer open_tokenizer(const OpenedModel& opened);

// Like open_tokenizer(), but without an Error if the model has no tokenizer; prompts are then token
// ids.
ModelTokenizer open_tokenizer_if_any(const OpenedModel& opened);

// Opens a tokenizer from the path of a model or of a tokenizer file.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& model_or_file);

// What "legacy" of a folder's tokenizer_config.json is taken for, whatever the file says; nullopt:
// the file counts.
std::optional<bool> fixed_legacy(const std::filesystem::path& folder);

}  // namespace skald
