// How many guesses each text gets in a step that computes several texts: as many as promise the
// most tokens per second of all texts together, by how often the texts' guesses were right, how
// long steps took by their rows, and how long a draft model took. The best guesses come first.
// Where many texts fill a step, or few guesses are right, there are none, and now and then a few to
// see whether they pay again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculate/step_time.h"

namespace skald {

class ShareControl {
 public:
  // rows: the most of a step.
  explicit ShareControl(int64_t rows)
      : steps_(static_cast<size_t>(rows) + 1), drafts_(static_cast<size_t>(rows) + 1) {}

  struct Offer {
    double probability;  // that a guess is right, if the guesses before it are
    int most;            // guesses
    // Offers of one text follow one another, and one of them at most is taken. -1: it is the only
    // one of its text.
    int64_t text = -1;
    bool drafted = false;  // by the draft model, whose steps take time; others take none
    double seconds = 0;    // that the draft model takes before its first guess
  };
  // The number of guesses of each offer, in a step of `texts` texts, with and without offers, and
  // at most `rows` rows. Valid until the next call.
  std::span<const int> share(std::span<const Offer> offers, int64_t texts, int64_t rows);
  // Guesses of the last share were made, `drafted` or not. A share whose guesses could not be made
  // yet is followed by another one.
  void made(bool drafted);

  // A step of so many rows took so long.
  void add_step(int64_t rows, double seconds);
  // A step of the draft model, with one guess of each of so many texts, took so long.
  void add_draft_step(int64_t texts, double seconds);

 private:
  struct Guess {
    double probability;  // that it and the guesses before it are right
    int before;          // guesses of its text before it
    size_t offer;
  };
  enum class From : uint8_t { All, Free, Drafted };
  struct Plan {
    From from = From::All;
    int64_t guesses = 0;
    double rate = 0;  // tokens per second
  };
  // Steps without guesses of a kind since the last ones, though some were offered; so many such
  // steps are followed by a few guesses.
  struct Tries {
    int skipped = 0, wait = kLeastWait;
    bool due() const { return skipped >= wait; }
  };
  struct Step {
    std::span<const Offer> offers;
    int64_t texts, rows;
  };

  void list(std::span<const Offer> offers, From from);
  Plan best_plan(const Step& step, From from);
  Plan fewest(const Step& step, From from);
  Plan choose(const Step& step, bool drafts, bool others);
  double draft_seconds(const Step& step, const Guess& guess);

  std::vector<StepTime> steps_;   // by rows
  std::vector<StepTime> drafts_;  // of the draft model, by texts
  Tries free_, drafted_;
  std::vector<Guess> guesses_;  // the best ones first
  std::vector<int64_t> deep_;   // drafted guesses so far, by the number before them
  std::vector<int> shares_;

  static constexpr int kLeastWait = 48, kMostWait = 8 * kLeastWait;
};

}  // namespace skald
