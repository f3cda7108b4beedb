// BPE tokenizers as Hugging Face's files and GGUFs describe them: byte-level (GPT-2, Llama 3,
// Qwen2, Tekken, SmolLM), and over characters with byte fallback (Llama 2, Mistral, Gemma, Phi-3 as
// tokenizer.json). Ids are equal to those of Hugging Face's tokenizers. Invalid UTF-8 bytes are
// read as U+FFFD, as in SentencePiece. Throws Error(Exit::Model) for an invalid vocabulary.
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

// A token that is matched in the text before BPE runs.
struct AddedToken {
  int32_t id = -1;
  std::string text;
  bool special = false;      // control token: matched only with EncodeOptions::parse_special
  bool normalized = false;   // matched in the normalized text, else in the original text
  bool single_word = false;  // no match beside a letter or digit
  bool lstrip = false, rstrip = false;  // absorb the white space before / after it
};

// How ids become text.
struct BpeDecoder {
  std::string space;           // "▁": stands for a space in pieces; "": nothing does
  bool byte_fallback = false;  // "<0x0A>" stands for a byte
  bool strip_space = false;    // drop the space at the start of a text
};

// The parts of a tokenizer, as read from files. make_bpe() checks them.
struct BpeVocabulary {
  struct Merge {
    std::string left, right;
  };

  std::string source = "vocabulary";  // for messages: "folder/tokenizer.json"
  std::vector<std::string> pieces;    // by id; "": no token
  std::vector<Merge> merges;          // by rank
  std::vector<AddedToken> added;
  bool byte_level = true;      // pieces use the byte alphabet, and BPE merges bytes
  bool byte_fallback = false;  // characters without a piece become "<0x..>"
  bool ignore_merges = false;  // a pre-tokenized part that is a piece becomes its token unmerged
  bool fuse_unk = false;
  bool last_merge_wins = true;    // of two equal merges, the last one counts; false: the first
  bool raw_user_defined = false;  // added tokens do not use the byte alphabet
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  // True: prefixes are also added after a special token, not only at the start of a text.
  bool legacy = true;
  BpeDecoder decoder;
  int32_t bos = -1, eos = -1, unk = -1, pad = -1;
  bool add_bos = false, add_eos = false;
  // Tokens that end a text. Like bos, eos and kTurnEnds they are control tokens whatever their
  // flags.
  std::vector<int32_t> ends;
};

std::unique_ptr<Tokenizer> make_bpe(BpeVocabulary vocabulary);

}  // namespace skald
