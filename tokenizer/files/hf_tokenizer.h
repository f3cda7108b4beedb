// A Hugging Face tokenizer.json (and the tokenizer_config.json beside it): BPE tokenizers with
// their normalizer, pre-tokenizer, decoder, post-processor and added tokens. What in it would
// change ids or text and is not known is an Error that names it, never ignored.
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

// What tokenizer_config.json says; the tokens as their texts, "" where it names none.
struct HfTokenizerConfig {
  std::optional<bool> add_bos, add_eos, legacy;
  std::string bos, eos, unk, pad;
};

HfTokenizerConfig parse_hf_tokenizer_config(std::string_view json, const std::string& source);

// nullopt: the file holds another kind of model (Unigram, WordPiece, ...).
std::optional<BpeVocabulary> parse_hf_tokenizer(std::string_view json, const std::string& source,
                                                const HfTokenizerConfig& config = {});

// With the tokenizer_config.json in the same folder, if there is one. ends: as in BpeVocabulary.
// nullptr: as above.
std::unique_ptr<Tokenizer> open_hf_tokenizer(const std::filesystem::path& tokenizer_json,
                                             std::vector<int32_t> ends = {});

}  // namespace skald
