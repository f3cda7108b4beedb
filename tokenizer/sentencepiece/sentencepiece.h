// SentencePiece tokenizers (Llama 1 and 2, Mistral, Gemma, Phi-3, TinyLlama), by the sentencepiece
// library. Whether the vocabulary comes from a tokenizer.model or from a GGUF, it is checked here,
// written anew and only then given to the library, which trusts what it loads: a stranger's file
// never reaches it. Throws Error(Exit::Model) for what cannot be a vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/text/tokenizer.h"

namespace skald {

// The parts of a tokenizer as its file gives them, unchecked. Pieces may repeat, be empty or hold
// any bytes: such a piece keeps its id and its text, only no text becomes it (of equal pieces the
// first one is used).
struct Vocabulary {
  std::string source = "vocabulary";  // for messages: "model.gguf"
  bool unigram = false;               // else BPE
  std::vector<std::string> pieces;
  std::vector<float> scores;   // empty: earlier pieces score higher
  std::vector<int32_t> types;  // TokenKind's numbers, 0 is 1; empty: guessed from the ids and names
  int32_t bos = -1, eos = -1, unk = -1, pad = -1;
  bool add_bos = true, add_eos = false;
  bool add_space_prefix = true;  // " " goes before a text
  bool remove_extra_whitespaces = false;
  // With parse_special: whether the text after a special token gets the prefix as well, not only a
  // text's start ("legacy" in tokenizer_config.json).
  bool legacy = true;
  std::string charsmap;  // the normalizer's compiled rules; most Llama-like models have none
  std::string unk_surface = " \xE2\x81\x87 ";  // what the unknown token reads as: " ⁇ "
};

// What tokenizer_config.json says beside a tokenizer.model; unset: the defaults above.
struct SentencePieceSettings {
  std::optional<bool> add_bos = {}, add_eos = {}, legacy = {};
};

// The vocabulary of a tokenizer.model, for a caller who adds to it (a chat model's added tokens go
// to the end of pieces, as control or user-defined) before make_sentencepiece().
Vocabulary read_sentencepiece(const std::filesystem::path& model);
Vocabulary parse_sentencepiece(std::string_view bytes, const std::string& source);

std::unique_ptr<Tokenizer> make_sentencepiece(Vocabulary vocabulary);
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& model,
                                              const SentencePieceSettings& settings = {});

}  // namespace skald
