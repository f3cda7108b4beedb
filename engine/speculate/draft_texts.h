// Guesses of a smaller model, the draft model, for several texts together: each step of it computes
// one guess of every text. It keeps a sequence for each text, in step with the text. What a text no
// longer has is cut off by the longest common prefix, so it does not matter why: a wrong guess, an
// answer taken back, or another prompt. A new text begins with the cache of another text that
// begins alike.
//
// A model with the same vocabulary draws its guesses as the text draws its tokens: with the same
// settings and random numbers. So an equal model is always right. A model with another vocabulary
// gets the text through a Translation and guesses its most probable tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/clock.h"
#include "engine/speculate/texts_proposer.h"
#include "engine/step/backend.h"

namespace skald {

// Writes tokens of one vocabulary as tokens of another one that have the same text.
class Translation {
 public:
  virtual ~Translation() = default;
  // The text in the draft model's tokens. Empty: the text ends within a character, so that its
  // tokens are not known yet. Calls follow one another as a Proposer's do.
  virtual std::vector<int32_t> to_draft(std::span<const int32_t> tokens) = 0;
  // Writes the draft model's guesses after that text in the text's tokens, whole ones alone.
  virtual std::vector<int32_t> from_draft(std::span<const int32_t> guesses) = 0;
};
// Makes the translation of one text. Empty: both vocabularies have the same tokens, as far as both
// have them: those that the draft model lacks are left out of what it sees.
using Translations = std::function<std::unique_ptr<Translation>()>;

class DraftTexts final : public TextsProposer {
 public:
  // The executor is the draft model's, with room for as many sequences as it has rows, and without
  // recurrent states, which cannot drop a token. `vocab` is the number of tokens that texts may
  // have.
  DraftTexts(std::unique_ptr<Executor> draft, int64_t vocab, Translations translations = {},
             SecondsClock clock = steady_seconds);

  class Text final : public TextsProposer::Text {
   public:
    explicit Text(DraftTexts& all);
    ~Text() override;

    // The draft model's tokens that it has computed; their keys and values are in its cache.
    std::span<const int32_t> computed() const { return computed_; }

   private:
    friend class DraftTexts;
    DraftTexts& all_;
    Sequence sequence_;  // the cache of computed_
    std::unique_ptr<Translation> translation_;
    std::vector<int32_t> computed_;  // the draft model's tokens so far
    std::vector<int32_t> pending_;   // what the text has after them
    // A text of at least so many tokens has no room in the draft model's context.
    int64_t too_long_;
  };

  std::unique_ptr<TextsProposer::Text> new_text() override { return std::make_unique<Text>(*this); }

  int offer(const TextsProposer::Text& text, std::span<const int32_t> tokens,
            int most) const override;
  double catch_up_seconds(const TextsProposer::Text& text, int64_t tokens) const override;
  void catch_up(std::span<Request> requests) override;
  void guess(std::span<Request> requests) override;

 private:
  struct Growing;

  std::vector<int32_t> in_draft_tokens(Text& text, std::span<const int32_t> tokens) const;
  bool follow(Text& text, std::span<const int32_t> tokens);
  void share_beginning(Text& text) const;
  static bool begins_like_one_of(std::span<Text* const> others, const Text& text);
  int64_t few() const;
  void compute(std::span<const SeqRows> rows, std::span<Text* const> texts);
  void compute_all_but_last(std::vector<Growing>& growing);
  void compute_pending(std::vector<Growing>& growing);
  bool next_guesses(std::vector<Growing>& growing);
  std::vector<Growing> with_room(std::span<Request> requests) const;
  SamplingParams draft_params(const Text& text, const SamplingParams& params) const;

  std::unique_ptr<Executor> draft_;
  int64_t vocab_;
  Translations translations_;
  SecondsClock clock_;
  std::vector<Text*> texts_;
  double row_seconds_ = 0;  // of a row of catch_up()
};

}  // namespace skald
