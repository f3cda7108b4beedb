// A Hugging Face folder's tokenizer in the arrays that a GGUF has for it: SentencePiece as "llama"
// with a score for each piece, byte-level BPE as "gpt2" with its merges and the name of its rules
// for cutting texts. What a GGUF cannot say is an Error(Exit::Model).
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

struct GgufTokens {
  std::string_view model;  // "llama" or "gpt2"
  std::string_view pre;    // of gpt2
  std::vector<std::string> pieces;
  std::vector<int32_t> types;       // TokenKind's numbers
  std::vector<float> scores;        // of llama
  std::vector<std::string> merges;  // of gpt2: "a b"
  // Of llama.
  bool add_space_prefix = true, remove_extra_whitespaces = false, legacy = true;
};

// `tokenizer` is what skald makes of the same files, and says what each token is.
GgufTokens gguf_tokens(const Vocabulary& vocabulary, const Tokenizer& tokenizer);

// Of a tokenizer.json's text and what lies beside it. A SentencePiece model as BPE with byte
// fallback takes its scores from the tokenizer.model beside it, where there is one, else from the
// order of its merges.
struct HfTokenizerFiles {
  std::string_view json;
  std::string source;  // of json, for messages
  HfTokenizerConfig config;
  std::optional<Vocabulary> model;
};
GgufTokens gguf_tokens(const HfTokenizerFiles& files, const Tokenizer& tokenizer);

// A model's embedding may have more rows than there are tokens, and a GGUF has a token for each:
// the rest are unused ones. Tokens that have no row are dropped.
void fit_to_rows(GgufTokens& tokens, int64_t rows);

}  // namespace skald
