// Reads the JSON files of a Hugging Face tokenizer. A vocabulary and its merges, hundreds of
// thousands of entries, do not go through the tree. Throws Error(Exit::Model).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/text/json_value.h"

namespace skald {

struct TokenizerJson {
  JsonValue root;                                      // without model.vocab and model.merges
  std::vector<std::pair<std::string, int64_t>> vocab;  // of model; empty where it is no object
  std::vector<BpeVocabulary::Merge> merges;
};

TokenizerJson parse_tokenizer_json(std::string_view json, const std::string& source);
std::string read_json_file(const std::filesystem::path& file);  // refuses one that is too large

}  // namespace skald
