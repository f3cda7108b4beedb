// Guesses by a head: a small model, often one layer, that reads what the large model has computed
// for each token (its features) beside the token that follows, and so guesses the token after that.
// It keeps a cache of its own in step with the text.
//
//   MTP     the model's own head, in its files: reads the residual stream
//   EAGLE-3 a head that was trained for the model: reads the residual stream before three layers
//
// For further guesses the head reads its own features in the place of the model's, which it does
// not have yet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/speculate/proposer.h"
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

class HeadProposer final : public Proposer {
 public:
  // The executor is the head's, with room for a sequence.
  HeadProposer(std::unique_ptr<Executor> head, HeadKind kind);

  int kinds() const override { return 1; }
  std::optional<Features> features() const override { return kind_.reads; }
  void computed(std::span<const int32_t> tokens, int64_t first,
                std::span<const float> features) override;
  Offer offer(const GuessedText& text, int most) override;
  std::vector<int32_t> guess(const GuessedText& text, int count) override;

  int64_t cached() const { return sequence_.length(); }  // rows; for tests

 private:
  int64_t waiting() const { return std::ssize(waiting_) / model_cols_; }
  // The text's position after the last one whose features are known.
  int64_t end() const { return origin_ + sequence_.length() + waiting(); }
  void keep(int64_t rows);
  void compute(std::span<const int32_t> tokens, int64_t count, Want want);
  void run(int32_t token, std::span<const float> own);
  SamplingParams own_params(const SamplingParams& params) const;

  std::unique_ptr<Executor> head_;
  HeadKind kind_;
  int64_t model_cols_, own_cols_;  // of the model's features, and of the head's own
  Sequence sequence_;              // a row for each position of the text from origin_ on
  int64_t origin_ = 0;
  std::vector<float> waiting_;  // features of the positions after those in sequence_
  std::vector<float> given_;    // of the step that is computed
  int64_t last_row_ = 0;        // of the last step
};

}  // namespace skald
