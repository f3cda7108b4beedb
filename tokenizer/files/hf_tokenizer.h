// Reads a Hugging Face tokenizer.json (and the tokenizer_config.json beside it): BPE tokenizers
// with normalizer, pre-tokenizer, decoder, post-processor and added tokens. An unknown setting that
// could change ids or text is an Error that names it; it is never ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

// Settings of tokenizer_config.json. Tokens are given by their texts; "": not set.
struct HfTokenizerConfig {
  std::optional<bool> add_bos, add_eos, legacy;
  std::string bos, eos, unk, pad;
};

HfTokenizerConfig parse_hf_tokenizer_config(std::string_view json, const std::string& source);

// The tokens that a tokenizer.model does not have, as the files beside it list them:
// "added_tokens_decoder" of a tokenizer_config.json, and an added_tokens.json.
std::vector<AddedToken> parse_tokens_of_config(std::string_view json, const std::string& source);
std::vector<AddedToken> parse_added_tokens(std::string_view json, const std::string& source);

// nullopt: the file contains another kind of model (Unigram, WordPiece, ...).
std::optional<BpeVocabulary> parse_hf_tokenizer(std::string_view json, const std::string& source,
                                                const HfTokenizerConfig& config = {});

// Also reads the tokenizer_config.json in the same folder, if present. `ends`: see BpeVocabulary.
// `legacy` has priority over the configuration's. nullptr: another kind of model.
std::unique_ptr<Tokenizer> open_hf_tokenizer(const std::filesystem::path& tokenizer_json,
                                             std::vector<int32_t> ends = {},
                                             std::optional<bool> legacy = {});

}  // namespace skald
