// Decides how many guesses a step gets, and of which kind: those that give the most tokens per
// second, estimated from how often guesses were right and how long guesses and steps took so far.
// If guesses do not pay, there are none, except now and then a few to see whether they pay again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculate/proposer.h"
#include "engine/speculate/step_time.h"

namespace skald {

struct GuessCounts {
  int64_t steps = 0;    // steps with guesses
  int64_t guesses = 0;  // guesses that were computed
  int64_t right = 0;    // guesses that were right
  // The tokens per second of all steps, divided by the tokens per second of steps without guesses.
  // 0: not known.
  double gain = 0;
};

class GuessControl {
 public:
  // At most `most` guesses a step.
  GuessControl(int kinds, int most);

  int most() const { return most_; }

  struct Choice {
    size_t offer = 0;  // an index into the offers
    int count = 0;     // its guesses for the next step; 0: none
  };
  // Chooses none in the first steps, until the time of a step without guesses is believed.
  Choice choose(std::span<const Offer> offers) const;

  // Records that a step went without guesses, though these were offered.
  void skipped(std::span<const Offer> offers);
  // Records how long so many guesses of this kind took to make.
  void made(int kind, int guesses, double seconds);
  // Records how long a step of so many rows took. A step with guesses has one row more than it has
  // guesses.
  void add_step(int rows, double seconds);
  // Records that the first `right` of so many guesses of this kind were right.
  void checked(int kind, int guesses, int right);
  const GuessCounts& counts() const { return counts_; }
  double plain_seconds() const { return steps_[1].seconds; }  // time of a step without guesses

 private:
  struct Kind {
    double probability;  // that the next guess is right
    StepTime guess;      // the time to make one guess
    int skipped = 0;     // steps without guesses of this kind since the last ones
    int wait;            // after this many skipped steps a few guesses are tried
  };

  double seconds_of(int rows) const;
  double gain(int kind, int guesses) const;

  int most_;
  std::vector<Kind> kinds_;
  std::vector<StepTime> steps_;  // times of steps, by their number of rows
  GuessCounts counts_;
};

}  // namespace skald
