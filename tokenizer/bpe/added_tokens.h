// Finds the added tokens of a BPE tokenizer in a text, as Hugging Face's tokenizers does: the
// leftmost match, of several the longest, including the white space that a token absorbs. Call
// add() for all tokens, then finish(); after that any number of threads may call split().
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
  void add(AddedToken token);  // matches token.text
  void finish() { matcher_.finish(); }

  struct Part {
    Span span;
    int32_t id;  // -1: text between tokens
  };
  // Without parse_special, special tokens are not matched. An empty text has no parts.
  std::vector<Part> split(std::string_view text, bool parse_special) const;

 private:
  std::deque<AddedToken> tokens_;  // the matcher borrows their texts and returns their indices
  SpecialMatcher matcher_;
};

}  // namespace skald
