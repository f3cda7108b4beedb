// Converts the tokenizer of a Hugging Face folder to the arrays of a GGUF: SentencePiece as "llama"
// with a score for each piece, byte-level BPE as "gpt2" with its merges and the name of its
// pre-tokenizer, Gemma 4's BPE over characters as "gemma4" with its merges. Throws
// Error(Exit::Model) if GGUF cannot express the tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/files/hf_tokenizer.h"
#include "tokenizer/sentencepiece/sentencepiece.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

// GGUF's kind of a BPE over characters that has its merges, not scores.
inline constexpr std::string_view kMergesOfCharacters = "gemma4";

struct GgufTokens {
  std::string_view model;  // "llama", "gpt2" or kMergesOfCharacters
  std::string_view pre;    // not of llama
  std::vector<std::string> pieces;
  std::vector<int32_t> types;       // values of TokenKind
  std::vector<float> scores;        // llama only
  std::vector<std::string> merges;  // not of llama: "a b"
  // llama only.
  bool add_space_prefix = true, remove_extra_whitespaces = false, legacy = true;
};

// `tokenizer` is skald's tokenizer of the same files; it provides the kind of each token.
GgufTokens gguf_tokens(const Vocabulary& vocabulary, const Tokenizer& tokenizer);

// The text of a tokenizer.json and the settings of the files beside it. A SentencePiece model that
// is stored as BPE with byte fallback takes its scores from the tokenizer.model beside it, or else
// from the order of its merges.
struct HfTokenizerFiles {
  std::string_view json;
  std::string source;  // name of the json file, for messages
  HfTokenizerConfig config;
  std::optional<Vocabulary> model;
  bool keeps_merges = false;  // the model's readers expect kMergesOfCharacters
};
GgufTokens gguf_tokens(const HfTokenizerFiles& files, const Tokenizer& tokenizer);

// Adapts the tokens to the rows of the embedding, because a GGUF has one token for each row: adds
// unused tokens, or drops tokens without a row.
void fit_to_rows(GgufTokens& tokens, int64_t rows);

}  // namespace skald
