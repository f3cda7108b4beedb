// Finds the added tokens of a BPE tokenizer in a text, as Hugging Face's tokenizers does: the
// leftmost, of those the longest, with the white space that a token takes along. add() all, then
// finish(); split() may then be called by any number of threads.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/text/regex.h"
#include "tokenizer/text/special_matcher.h"

namespace skald {

class AddedTokens {
 public:
  void add(AddedToken token);  // looked for as token.text
  void finish() { matcher_.finish(); }

  struct Part {
    Span span;
    int32_t id;  // -1: text between tokens
  };
  // Without parse_special the text of special tokens stays text. Nothing for an empty text.
  std::vector<Part> split(std::string_view text, bool parse_special) const;

 private:
  std::deque<AddedToken> tokens_;  // the matcher refers to their texts, and gives their indices
  SpecialMatcher matcher_;
};

}  // namespace skald
