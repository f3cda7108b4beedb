// A faster replacement of the sentencepiece library for long texts. The library takes half a second
// per megabyte, and up to two seconds if the text has no place to cut. Used only if the result is
// the same by construction: BPE with byte fallback for all bytes, no unused pieces, no
// normalization, and no user-defined piece in the text. Immutable; any number of threads may use
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/sentencepiece/sentencepiece_model.h"
#include "tokenizer/text/merges.h"
#include "tokenizer/text/special_matcher.h"

namespace skald {

class PieceMerger {
 public:
  // Nullptr: the vocabulary does not qualify
  static std::unique_ptr<PieceMerger> make(LibraryModel model);

  // `text` is the output of as_library_sees(). Returns false if the text must go to the library.
  bool append(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  explicit PieceMerger(LibraryModel model);
  void add_symbols();
  void add_merges();

  LibraryModel model_;
  SpecialMatcher user_defined_;
  // All pieces, followed by characters of pieces that are not pieces themselves.
  std::unordered_map<std::string_view, int32_t> symbols_;
  // Characters of symbols, counted from the number of pieces on
  std::vector<std::string_view> characters_;
  std::vector<int32_t> byte_ids_;
  Merges merges_;  // ranked by score
};

// The text as the library normalizes it without rules: spaces become U+2581, invalid bytes U+FFFD.
std::string as_library_sees(std::string_view text);

}  // namespace skald
