// Guesses what a smaller model would write: the draft model. It keeps a sequence of its own in step
// with the text. What the text no longer has is cut off by the longest common prefix, so it does
// not matter why: a wrong guess, an answer taken back, or another prompt.
//
// A model with the same vocabulary draws its guesses as the text draws its tokens: with the same
// settings and random numbers. So an equal model is always right. A model with another vocabulary
// gets the text through a Translation and guesses its most probable tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/speculate/proposer.h"
#include "engine/step/backend.h"

namespace skald {

// Writes tokens of one vocabulary as tokens of another one that have the same text.
class Translation {
 public:
  virtual ~Translation() = default;
  // The text in the draft model's tokens. Empty: the text ends within a character, so that its
  // tokens are not known yet. Calls follow one another as a Proposer's do.
  virtual std::vector<int32_t> to_draft(std::span<const int32_t> tokens) = 0;
  // What the draft model guesses after that text, in the text's tokens, whole ones alone.
  virtual std::vector<int32_t> from_draft(std::span<const int32_t> guesses) = 0;
};

class DraftProposer final : public Proposer {
 public:
  // The executor is the draft model's, with room for a sequence, and without recurrent states,
  // which cannot drop a token. `vocab` is the number of tokens that the text may have. Without a
  // translation, both vocabularies have the same tokens, as far as both have them: those that the
  // draft model lacks are left out of what it sees.
  DraftProposer(std::unique_ptr<Executor> draft, int64_t vocab,
                std::unique_ptr<Translation> translation = nullptr);

  int kinds() const override { return 1; }
  Offer offer(const GuessedText& text, int most) override;
  bool catch_up(const GuessedText& text) override;
  std::vector<int32_t> guess(const GuessedText& text, int count) override;

  // What the draft model has computed, in its tokens, and the cache of that. For tests.
  std::span<const int32_t> computed() const { return computed_; }

 private:
  std::vector<int32_t> in_draft_tokens(std::span<const int32_t> tokens);
  void compute(std::span<const int32_t> tokens, Want want);
  SamplingParams draft_params(const SamplingParams& params) const;

  std::unique_ptr<Executor> draft_;
  Sequence sequence_;  // the cache of computed_
  int64_t vocab_;
  std::unique_ptr<Translation> translation_;  // nullptr: the same vocabulary
  std::vector<int32_t> computed_;             // the draft model's tokens so far
  std::vector<int32_t> pending_;              // what the text has after them
  // A text of at least so many tokens has no room in the draft model's context.
  int64_t too_long_;
};

}  // namespace skald
