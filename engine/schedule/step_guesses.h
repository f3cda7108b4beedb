// Guesses in a step of several samples (engine/speculate): a sample in decode gets rows for the
// tokens that may follow its next one. They change no token. Guesses follow from what the sample's
// own text repeats.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/schedule/step_picks.h"
#include "engine/speculate/guess_control.h"
#include "engine/speculate/ngram.h"
#include "engine/speculate/share_control.h"

namespace skald {

// What guesses need to know of a sample.
struct GuessedSample {
  static constexpr double kFirstRight = 0.7;  // assumed before any guess was checked

  GuessedSample() { right.assign(static_cast<size_t>(proposer.kinds()), kFirstRight); }

  NgramProposer proposer;
  std::vector<double> right;  // by kind: the probability that the next guess is right
  int kind = 0;               // of the last offer
  std::vector<int32_t> text;  // the sample's tokens and the guesses behind them
};

class StepGuesses {
 public:
  // most: the most guesses of a sample. rows: the most rows of a step, guesses included.
  StepGuesses(int most, int64_t rows) : most_(most), rows_(rows), control_(rows) {}

  struct Room {
    int64_t rows, pages, context;
  };
  // Adds guesses to the parts, if each is the one row of a sample in decode.
  void add(std::span<StepPicks::Rows> parts, const Room& room);

  // Call after the step's picks were delivered. Removes wrong guesses from the sequences. Records
  // which guesses were right, and how long the step took.
  void checked(std::span<const StepPicks::Rows> parts, double seconds);

  const GuessCounts& counts() const { return counts_; }

 private:
  int offered(ScheduledSample& sample, const Room& room) const;

  int most_;
  int64_t rows_;
  ShareControl control_;
  GuessCounts counts_;
  bool measured_ = false;  // every row of the step belongs to a sample in decode
  std::vector<StepPicks::Rows*> offering_;
  std::vector<ShareControl::Offer> offers_;
};

}  // namespace skald
