// Guesses for one text what a smaller model would write: the draft model (draft_texts.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/speculate/draft_texts.h"

namespace skald {

class DraftProposer final : public Proposer {
 public:
  // As of DraftTexts.
  DraftProposer(std::unique_ptr<Executor> draft, int64_t vocab, Translations translations = {})
      : texts_(std::move(draft), vocab, std::move(translations)), text_(texts_) {}

  int kinds() const override { return 1; }
  Offer offer(const GuessedText& text, int most) override {
    return {0, texts_.offer(text_, text.tokens, most)};
  }
  bool catch_up(const GuessedText& text) override {
    asked_ = {&text_, text, 0};
    texts_.catch_up({&asked_, 1});
    return asked_.ready;
  }
  std::vector<int32_t> guess(const GuessedText& text, int count) override {
    asked_.of = text;
    asked_.count = count;
    texts_.guess({&asked_, 1});
    return std::move(asked_.guesses);
  }

  // What the draft model has computed, in its tokens, and the cache of that. For tests.
  std::span<const int32_t> computed() const { return text_.computed(); }

 private:
  DraftTexts texts_;
  DraftTexts::Text text_;
  DraftTexts::Asked asked_ = {};
};

}  // namespace skald
