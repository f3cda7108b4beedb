// Guesses that a text repeats itself: what followed the last few tokens where they stood before
// comes again. Needs no model. It pays where an answer repeats its prompt: edits of a text or of
// code, summaries with quotes, lists. A guess takes some hundred nanoseconds, however long the text
// is.
#pragma once

#include <array>
#include <cstddef>
#include <unordered_map>

#include "engine/speculate/proposer.h"

namespace skald {

class NgramProposer final : public Proposer {
 public:
  int kinds() const override { return static_cast<int>(kLengths.size()); }
  Offer offer(const GuessedText& text, int most) override;
  std::vector<int32_t> guess(const GuessedText& text, int count) override;

 private:
  // How many last tokens must have stood before: the longer, the better the guess. A kind each.
  static constexpr std::array<size_t, 3> kLengths = {6, 4, 2};

  void learn(std::span<const int32_t> tokens);

  size_t learned_ = 0;  // tokens that are in the tables as continuations
  // By the hash of `kLengths[kind]` tokens: where they last ended. An entry may be wrong, since
  // tokens can be taken back and hashes can be equal, so the tokens there are compared.
  std::array<std::unordered_map<uint64_t, size_t>, kLengths.size()> ends_;
  size_t found_ = 0;  // by the last offer: where the last tokens ended before
};

}  // namespace skald
