// How many guesses a step gets: the number with the most tokens per second, by how often guesses
// were right and how long steps took so far. If guesses do not pay, there are none, and now and
// then a few to see whether they pay again.
#pragma once

#include <cstdint>
#include <vector>

namespace skald {

struct GuessCounts {
  int64_t steps = 0;    // with guesses
  int64_t guesses = 0;  // that were computed
  int64_t right = 0;
};

class GuessControl {
 public:
  // At most `most` guesses a step.
  GuessControl(int kinds, int most);

  int most() const { return most_; }
  // False until the time of a step without guesses is known.
  bool pays(int kind, int available) const { return best(kind, available) > 0; }
  // The number of guesses for the next step, of `available` ones of this kind.
  int choose(int kind, int available);

  // A step of so many rows took so long. Steps with guesses have a row more than guesses.
  void took(int rows, double seconds);
  // Of `guesses` guesses of this kind, the first `right` ones were right.
  void checked(int kind, int guesses, int right);
  const GuessCounts& counts() const { return counts_; }

 private:
  double seconds_of(int rows) const;
  double gain(int kind, int guesses) const;
  int best(int kind, int available) const;

  int most_;
  std::vector<double> right_;    // by kind: how likely the next guess is right
  std::vector<double> seconds_;  // by rows; 0: not known
  std::vector<int> steps_;       // by rows: how many were measured
  std::vector<int> skipped_;     // by kind: guesses that were not used since the last ones
  GuessCounts counts_;
};

}  // namespace skald
