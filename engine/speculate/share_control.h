// How many guesses each sequence gets in a step that computes several sequences. The numbers are
// those that promise the most tokens per second of all sequences together. The promise follows from
// two measurements: how often guesses of each sequence were right, and how long steps of each
// number of rows took. The likeliest guesses get rows first. Where guesses do not pay, there are
// none; now and then a step has a few, to see whether they pay again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculate/step_time.h"

namespace skald {

class ShareControl {
 public:
  // rows: the most rows that a step has.
  explicit ShareControl(int64_t rows) : steps_(static_cast<size_t>(rows) + 1) {}

  struct Offer {
    double right;  // the probability that a guess is right, if all guesses before it are right
    int most;      // the most guesses
  };
  // Returns the number of guesses of each offer, valid until the next call. The step has one row
  // for each of `sequences` sequences, those without an offer too, and at most `rows` rows in all.
  std::span<const int> share(std::span<const Offer> offers, int64_t sequences, int64_t rows);

  // Records that a step of `rows` rows took `seconds`.
  void took(int64_t rows, double seconds);

 private:
  struct Guess {
    double right;  // the probability that this guess and all guesses before it are right
    size_t offer;
  };

  double seconds_of(int64_t rows) const;
  int64_t best_rows(int64_t sequences, int64_t rows);

  std::vector<StepTime> steps_;  // by rows
  int skipped_ = 0;              // steps with offers but without guesses, since the last guesses
  int wait_ = kLeastWait;        // after this many skipped steps, a step tries a few guesses
  std::vector<Guess> guesses_;
  std::vector<int> shares_;

  static constexpr int kLeastWait = 48, kMostWait = 8 * kLeastWait;
};

}  // namespace skald
