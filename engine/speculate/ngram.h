// Guesses that a text repeats itself, or a file of texts (--spec-text): what followed the last few
// tokens where they stood before comes again. Needs no model. It pays where an answer repeats its
// prompt: edits of a text or of code, summaries with quotes, lists. A guess takes some hundred
// nanoseconds, however long the text and the file are.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/speculate/proposer.h"

namespace skald {

// How many last tokens must have stood before: the longer, the better the guess.
inline constexpr std::array<size_t, 3> kNgramLengths = {6, 4, 2};

// Tokens, and where each few of them last ended. Any number of proposers, also of several threads,
// search one of them.
class NgramText {
 public:
  explicit NgramText(std::vector<int32_t> tokens);

  std::span<const int32_t> tokens() const { return tokens_; }
  // Returns where the last kNgramLengths[length] tokens of `text` last ended before another token;
  // 0: nowhere.
  size_t find(size_t length, std::span<const int32_t> text) const;

 private:
  size_t slot(size_t length, std::span<const int32_t> last) const;

  std::vector<int32_t> tokens_;
  // For each length, a hash table of the ends; 0: free. Its size is a power of two.
  std::array<std::vector<uint32_t>, kNgramLengths.size()> ends_;
};

class NgramProposer final : public Proposer {
 public:
  // file: a text that is searched too; nullptr: none. For each number of last tokens, the text
  // itself is searched first.
  explicit NgramProposer(std::shared_ptr<const NgramText> file = nullptr)
      : file_(std::move(file)) {}

  // There is a kind for each length in the text itself, and one for each length in the file.
  int kinds() const override { return static_cast<int>(kNgramLengths.size() * (file_ ? 2 : 1)); }
  Offer offer(const GuessedText& text, int most) override;
  std::vector<int32_t> guess(const GuessedText& text, int count) override;

 private:
  void learn(std::span<const int32_t> tokens);
  size_t find(size_t length, std::span<const int32_t> tokens) const;

  std::shared_ptr<const NgramText> file_;
  size_t learned_ = 0;  // tokens that are in the tables as continuations
  // For each length, where such tokens last ended, by their hash. An entry may be wrong, since
  // tokens can be taken back and hashes can be equal, so the tokens there are compared.
  std::array<std::unordered_map<uint64_t, size_t>, kNgramLengths.size()> ends_;
  // Set by the last offer(): where the last tokens ended before, in the text or in the file.
  size_t found_ = 0;
  bool in_file_ = false;
};

}  // namespace skald
