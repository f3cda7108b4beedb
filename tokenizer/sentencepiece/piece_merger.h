// What the sentencepiece library makes of a long text, by our own merges: the library's queue takes
// half a second for a megabyte, up to two where no place is to cut the text. Only for vocabularies
// and texts where the result is the same by construction: BPE, all bytes as fallback, no unused
// pieces, nothing normalized, no user-defined piece in the text. Immutable; any number of threads.
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
  static std::unique_ptr<PieceMerger> make(LibraryModel model);  // nullptr: not for this one

  // text: as the library's normalizer leaves it. False where the library has to do it.
  bool append(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  explicit PieceMerger(LibraryModel model);
  void add_symbols();
  void add_merges();

  LibraryModel model_;
  SpecialMatcher user_defined_;
  // Pieces, and behind them the characters of pieces that are none themselves.
  std::unordered_map<std::string_view, int32_t> symbols_;
  std::vector<std::string_view> characters_;  // by symbol, from the number of pieces on
  std::vector<int32_t> byte_ids_;
  Merges merges_;  // ranked by score
};

// A text as the library normalizes it where there are no rules: spaces become U+2581, invalid bytes
// U+FFFD.
std::string as_library_sees(std::string_view text);

}  // namespace skald
