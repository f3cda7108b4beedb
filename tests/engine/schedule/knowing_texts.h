// Guesses for a scheduler's samples, whose tokens it knows: some of the guesses are wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/rng.h"
#include "engine/speculate/texts_proposer.h"

namespace skald::test {

class KnowingTexts final : public TextsProposer {
 public:
  // known: the whole text of each stream (Generation::streams). `wrong`: the share of wrong
  // guesses.
  KnowingTexts(std::map<uint64_t, std::vector<int32_t>> known, double wrong, int32_t vocab)
      : known_(std::move(known)), wrong_(wrong), vocab_(vocab) {}

  std::unique_ptr<TextsProposer::Text> new_text() override {
    return std::make_unique<TextsProposer::Text>();
  }
  int offer(const TextsProposer::Text&, std::span<const int32_t>, int most) const override {
    return most;
  }
  void catch_up(std::span<Request> requests) override {
    for (Request& one : requests) one.ready = true;
  }
  void guess(std::span<Request> requests) override {
    last_steps_.clear();
    for (Request& one : requests) {
      const std::vector<int32_t>& text = known_.at(one.of.request);
      size_t at = one.of.tokens.size();
      for (; std::ssize(one.guesses) < one.count && at < text.size(); ++at) {
        const bool wrong = uniform(1, one.of.request, static_cast<int64_t>(at)) < wrong_;
        one.guesses.push_back(wrong ? (text[at] + 1) % vocab_ : text[at]);
      }
      most_texts = std::max(most_texts, std::ssize(requests));
    }
  }

  int64_t most_texts = 0;  // of one call

 private:
  std::map<uint64_t, std::vector<int32_t>> known_;
  double wrong_;
  int32_t vocab_;
};

}  // namespace skald::test
