// Guesses by a head, for several texts together: a small model, often one layer, that reads what
// the large model has computed for each token (its features) beside the token that follows, and so
// guesses the token after that. It keeps a cache of its own in step with each text.
//
//   MTP     the model's own head, in its files: reads the residual stream
//   EAGLE-3 a head that was trained for the model: reads the residual stream before three layers
//
// For further guesses the head reads its own features in the place of the model's, which it does
// not have yet.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/clock.h"
#include "engine/speculate/texts_proposer.h"
#include "engine/step/backend.h"

namespace skald {

struct HeadKind {
  Features reads = Features::Normed;  // of the model
  Features gives = Features::Normed;  // of the head itself, for its further guesses
  // Each row of the head is given both: its own features, or zeros, and then the model's, or zeros.
  // Otherwise both have as many numbers, and a row is given one of them.
  bool both = false;
  // The text's token of each token that the head guesses; empty: they are the same.
  std::vector<int32_t> tokens = {};
};

class HeadTexts final : public TextsProposer {
 public:
  // The executor is the head's, with room for as many sequences as there are texts at most.
  HeadTexts(std::unique_ptr<Executor> head, HeadKind kind, SecondsClock clock = steady_seconds);

  class Text final : public TextsProposer::Text {
   public:
    explicit Text(HeadTexts& all) : sequence_(all.head_->new_sequence()) {}

    int64_t cached() const { return sequence_.length(); }  // rows; for tests

   private:
    friend class HeadTexts;
    Sequence sequence_;  // a row for each position of the text from origin_ on
    int64_t origin_ = 0;
    std::vector<float> waiting_;  // features of the positions after those in sequence_
  };
  std::unique_ptr<TextsProposer::Text> new_text() override { return std::make_unique<Text>(*this); }

  std::optional<Features> features() const override { return kind_.reads; }
  void computed(std::span<const ComputedRows> shown) override;
  int offer(const TextsProposer::Text& text, std::span<const int32_t> tokens,
            int most) const override;
  void catch_up(std::span<Request> requests) override;
  void guess(std::span<Request> requests) override;

 private:
  struct Growing;
  // Rows of a text that are to be computed: its first waiting ones.
  struct Part {
    Text* text;
    std::span<const int32_t> tokens;  // of the whole text
    int64_t count;
  };

  int64_t waiting(const Text& text) const { return std::ssize(text.waiting_) / model_cols_; }
  // The text's position after the last one whose features are known.
  int64_t end(const Text& text) const {
    return text.origin_ + text.sequence_.length() + waiting(text);
  }
  void keep(Text& text, int64_t rows) const;
  void take(const ComputedRows& shown) const;
  void compute_step(std::span<const Part> parts, Want want);
  void compute(std::vector<Part> parts);
  std::vector<Growing> begin(std::span<Request> requests);
  void pick(std::vector<Growing>& growing);
  void compute_guesses(std::span<const Growing> growing);
  SamplingParams own_params(const SamplingParams& params) const;

  std::unique_ptr<Executor> head_;
  HeadKind kind_;
  SecondsClock clock_;
  int64_t model_cols_, own_cols_;  // of the model's features, and of the head's own
  std::vector<float> given_rows_;  // SeqRows::given of the step in progress
};

}  // namespace skald
