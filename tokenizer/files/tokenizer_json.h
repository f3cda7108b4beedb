// Reads the JSON files of a Hugging Face tokenizer. The vocabulary and merges have hundreds of
// thousands of entries, so they bypass the JSON tree. Throws Error(Exit::Model).
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
  std::vector<std::pair<std::string, int64_t>> vocab;  // model.vocab; empty if it is not an object
  std::vector<BpeVocabulary::Merge> merges;
};

TokenizerJson parse_tokenizer_json(std::string_view json, const std::string& source);
std::string read_json_file(const std::filesystem::path& file);  // refuses files that are too large

}  // namespace skald
