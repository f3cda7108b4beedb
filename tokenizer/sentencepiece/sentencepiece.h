// SentencePiece tokenizers (Llama 1 and 2, Mistral, Gemma, Phi-3, TinyLlama), using the
// sentencepiece library. The library trusts the files that it loads. Therefore a vocabulary from a
// tokenizer.model or a GGUF is checked here and written anew; the library never sees an untrusted
// file. Throws Error(Exit::Model) for an invalid vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/text/tokenizer.h"

namespace skald {

// The parts of a tokenizer as read from a file, unchecked. Pieces may repeat, be empty or contain
// any bytes. Such a piece keeps its id and can be decoded, but no text is encoded to it (of equal
// pieces the first one is used).
struct Vocabulary {
  std::string source = "vocabulary";  // for messages: "model.gguf"
  bool unigram = false;               // false: BPE
  std::vector<std::string> pieces;
  std::vector<float> scores;   // empty: earlier pieces score higher
  std::vector<int32_t> types;  // values of TokenKind, 0 means 1; empty: guessed from ids and names
  int32_t bos = -1, eos = -1, unk = -1, pad = -1;
  bool add_bos = true, add_eos = false;
  bool add_space_prefix = true;  // " " is added before a text
  bool remove_extra_whitespaces = false;
  // With parse_special: the text after a special token also gets the prefix, not only the start of
  // a text ("legacy" in tokenizer_config.json).
  bool legacy = true;
  // Special tokens that absorb the white space after them, if EncodeOptions::parse_special finds
  // them in a text ("rstrip" in tokenizer.json).
  std::vector<int32_t> strips_right;
  std::string charsmap;  // the normalizer's compiled rules; most Llama-like models have none
  std::string unk_surface = " \xE2\x81\x87 ";  // decoded text of the unknown token: " ⁇ "
};

// Settings of tokenizer_config.json beside a tokenizer.model. Unset: the defaults of Vocabulary.
struct SentencePieceSettings {
  std::optional<bool> add_bos = {}, add_eos = {}, legacy = {};
};

// Reads the vocabulary of a tokenizer.model. The caller may add to it before make_sentencepiece():
// a chat model's added tokens are appended to pieces as control or user-defined tokens.
Vocabulary read_sentencepiece(const std::filesystem::path& model);
Vocabulary parse_sentencepiece(std::string_view bytes, const std::string& source);

std::unique_ptr<Tokenizer> make_sentencepiece(Vocabulary vocabulary);
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& model,
                                              const SentencePieceSettings& settings = {});

}  // namespace skald
