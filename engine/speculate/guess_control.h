// How many guesses a step gets, and of which kind: the number with the most tokens per second, by
// how often guesses were right and how long guesses and steps took so far. If guesses do not pay,
// there are none, and now and then a few to see whether they pay again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculate/proposer.h"
#include "engine/speculate/step_time.h"

namespace skald {

struct GuessCounts {
  int64_t steps = 0;    // with guesses
  int64_t guesses = 0;  // that were computed
  int64_t right = 0;
  // The tokens per second of all steps, over those that steps without guesses would have given; 0:
  // not known.
  double gain = 0;
};

class GuessControl {
 public:
  // At most `most` guesses a step.
  GuessControl(int kinds, int most);

  int most() const { return most_; }

  // One of the offers, and the number of its guesses for the next step; 0: none. There are none in
  // the first steps, until the time of a step without guesses is believed.
  struct Choice {
    size_t offer = 0;
    int count = 0;
  };
  Choice choose(std::span<const Offer> offers) const;

  // A step went without guesses, though these were offered.
  void skipped(std::span<const Offer> offers);
  // Guesses of this kind were made, which took so long.
  void made(int kind, int guesses, double seconds);
  // A step of so many rows took so long. Steps with guesses have a row more than guesses.
  void add_step(int rows, double seconds);
  // Of `guesses` guesses of this kind, the first `right` ones were right.
  void checked(int kind, int guesses, int right);
  const GuessCounts& counts() const { return counts_; }
  double plain_seconds() const { return steps_[1].seconds; }  // of a step without guesses

 private:
  struct Kind {
    double probability;  // that the next guess is right
    StepTime guess;      // to make one
    int skipped = 0;     // steps without guesses since the last ones
    int wait;  // so many such steps are followed by a few guesses, to see whether they pay
  };

  double seconds_of(int rows) const;
  double gain(int kind, int guesses) const;

  int most_;
  std::vector<Kind> kinds_;
  std::vector<StepTime> steps_;  // by rows
  GuessCounts counts_;
};

}  // namespace skald
