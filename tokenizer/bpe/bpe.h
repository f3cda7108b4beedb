// BPE tokenizers as Hugging Face's files and GGUFs describe them: byte-level (GPT-2, Llama 3,
// Qwen2, Tekken, SmolLM) and over characters with bytes as fallback (Llama 2, Mistral, Gemma,
// Phi-3 as tokenizer.json). Gives the ids that Hugging Face's tokenizers gives. Bytes that are no
// UTF-8 are read as U+FFFD, as SentencePiece does it.
// Throws Error(Exit::Model) for what cannot be a vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/bpe/pre_tokenizer.h"
#include "tokenizer/text/normalizer.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

// A token that is found in the text before any merging.
struct AddedToken {
  int32_t id = -1;
  std::string text;
  bool special = false;      // control: only with EncodeOptions::parse_special
  bool normalized = false;   // looked for in the normalized text, else in the text as it came
  bool single_word = false;  // not where a letter or digit stands beside it
  bool lstrip = false, rstrip = false;  // it takes the white space beside it too
};

// How ids become text again.
struct BpeDecoder {
  std::string space;           // "▁": reads as a space in pieces; "": none does
  bool byte_fallback = false;  // "<0x0A>" reads as a byte
  bool strip_space = false;    // the space that a text begins with is dropped
};

// A tokenizer's parts, unchecked but for the types.
struct BpeVocabulary {
  struct Merge {
    std::string left, right;
  };

  std::string source = "vocabulary";  // for messages: "folder/tokenizer.json"
  std::vector<std::string> pieces;    // by id; "" where there is no token
  std::vector<Merge> merges;          // by rank
  std::vector<AddedToken> added;
  bool byte_level = true;      // pieces are written in the byte alphabet, and bytes are merged
  bool byte_fallback = false;  // characters that are no piece become "<0x..>"
  bool ignore_merges = false;  // a part that is a piece is taken as it is
  bool fuse_unk = false;
  bool last_merge_wins = true;    // of two equal ones; else the first
  bool raw_user_defined = false;  // added tokens are not written in the byte alphabet
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  // Whether prefixes are put after a special token too, not only at a text's start.
  bool legacy = true;
  BpeDecoder decoder;
  int32_t bos = -1, eos = -1, unk = -1, pad = -1;
  bool add_bos = false, add_eos = false;
  // Tokens that end a text: as bos, eos and kTurnEnds they are control whatever their flags say.
  std::vector<int32_t> ends;
};

std::unique_ptr<Tokenizer> make_bpe(BpeVocabulary vocabulary);

}  // namespace skald
