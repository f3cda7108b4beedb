// How many guesses each text gets in a step that computes several texts: as many as promise the
// most tokens per second of all texts together, by how often the texts' guesses were right and how
// long steps took by their rows. The best guesses come first. Where many texts fill a step, or few
// guesses are right, there are none, and now and then a few to see whether they pay again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculate/step_time.h"

namespace skald {

class ShareControl {
 public:
  // rows: the most of a step.
  explicit ShareControl(int64_t rows) : steps_(static_cast<size_t>(rows) + 1) {}

  struct Offer {
    double right;  // how likely a guess is right, if the guesses before are
    int most;      // guesses
  };
  // The number of guesses of each offer, in a step of `texts` texts, with and without offers, and
  // at most `rows` rows. Valid until the next call.
  std::span<const int> share(std::span<const Offer> offers, int64_t texts, int64_t rows);

  // A step of so many rows took so long.
  void took(int64_t rows, double seconds);

 private:
  struct Guess {
    double right;  // it and the guesses before
    size_t offer;
  };

  double seconds_of(int64_t rows) const;
  int64_t best_rows(int64_t texts, int64_t rows);

  std::vector<StepTime> steps_;  // by rows
  int skipped_ = 0;        // steps without guesses since the last ones, though some were offered
  int wait_ = kLeastWait;  // so many such steps are followed by a few guesses
  std::vector<Guess> guesses_;
  std::vector<int> shares_;

  static constexpr int kLeastWait = 48, kMostWait = 8 * kLeastWait;
};

}  // namespace skald
