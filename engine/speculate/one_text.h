// Guesses for one text by what could guess for several: a draft model (draft_texts.h) or a head
// (head_texts.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/speculate/draft_texts.h"
#include "engine/speculate/head_texts.h"

namespace skald {

template <class Texts>
class OneTextProposer final : public Proposer {
 public:
  // The arguments of Texts.
  template <class... Arguments>
  explicit OneTextProposer(Arguments&&... arguments)
      : texts_(std::forward<Arguments>(arguments)...), text_(texts_) {}

  int kinds() const override { return 1; }
  std::optional<Features> features() const override { return texts_.features(); }
  void computed(std::span<const int32_t> tokens, int64_t first,
                std::span<const float> features) override {
    const TextsProposer::ComputedRows shown{&text_, tokens, first, features};
    texts_.computed({&shown, 1});
  }
  Offer offer(const GuessedText& text, int most) override {
    return {0, texts_.offer(text_, text.tokens, most)};
  }
  bool catch_up(const GuessedText& text) override {
    request_ = {&text_, text, 0};
    texts_.catch_up({&request_, 1});
    return request_.ready;
  }
  std::vector<int32_t> guess(const GuessedText& text, int count) override {
    request_.of = text;
    request_.count = count;
    texts_.guess({&request_, 1});
    return std::move(request_.guesses);
  }

  const typename Texts::Text& text() const { return text_; }  // for tests

 private:
  Texts texts_;
  typename Texts::Text text_;
  TextsProposer::Request request_ = {};
};

using DraftProposer = OneTextProposer<DraftTexts>;
using HeadProposer = OneTextProposer<HeadTexts>;

}  // namespace skald
