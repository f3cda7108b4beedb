// Decides how many guesses each text gets in a step that computes several texts. The decision gives
// the most tokens per second of all texts together. It follows from how often the guesses of each
// text were right, how long steps of each number of rows took, and how long the draft model took.
// The most probable guesses come first. Where many texts fill a step, or few guesses are right,
// there are none, except now and then a few to see whether they pay again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculate/step_time.h"

namespace skald {

class ShareControl {
 public:
  // rows: the most rows of a step.
  explicit ShareControl(int64_t rows)
      : steps_(static_cast<size_t>(rows) + 1), drafts_(static_cast<size_t>(rows) + 1) {}

  // What can guess for a text: its own repetitions, or the draft model.
  struct Source {
    double probability;  // that a guess is right, if the guesses before it are
    int most;            // the most guesses that it can make
    // The text's number. Sources of one text follow one another, and at most one of them is used.
    // -1: the text has no other source.
    int64_t text = -1;
    bool drafted = false;  // the draft model, whose steps take time; other sources take none
    double seconds = 0;    // the draft model's time before its first guess
    // Rows of the text before the guesses that a wrong guess makes the model compute once more,
    // beside those of right guesses, as a recurrent state goes back. 0: nothing is computed again.
    int64_t again = 0;
  };
  // A step as it is without guesses, and what bounds it.
  struct Load {
    int64_t texts;  // all texts of the step, also those without a source; each gets a token
    int64_t rows;   // at least one of each text
    int64_t most;   // rows, with those of guesses
  };
  // Returns the number of guesses of each source. Valid until the next call.
  std::span<const int> share(std::span<const Source> sources, const Load& load);
  // Records that guesses of the last share() were made, by the draft model (`drafted`) or without
  // it. If the draft model cannot make them yet, the next step calls share() again instead.
  void made(bool drafted);

  // Records how long a step of so many rows took.
  void add_step(int64_t rows, double seconds);
  // Records how long a step of the draft model took that made one guess of each of so many texts.
  void add_draft_step(int64_t texts, double seconds);

 private:
  struct Guess {
    double probability;  // that it and the guesses before it are right
    double wrong;        // the probability that it is the first wrong one
    int before;          // guesses of its text before it
    size_t source;       // its index in Step::sources
  };
  // The sources that a plan uses; Free: all but the draft model, since their guesses take no time.
  enum class From : uint8_t { All, Free, Drafted };
  struct Plan {
    From from = From::All;
    int64_t guesses = 0;
    double rate = 0;  // tokens per second
  };
  // When guesses of a kind that do not pay are tried again.
  struct Tries {
    int skipped = 0;        // steps without such guesses since the last ones, with a source of them
    int wait = kLeastWait;  // a try follows this many skipped steps
    bool due() const { return skipped >= wait; }
  };
  struct Step {
    std::span<const Source> sources;
    Load load;
  };

  void list(std::span<const Source> sources, From from);
  Plan best_plan(const Step& step, From from);
  Plan fewest(const Step& step, From from);
  Plan choose(const Step& step, bool drafts, bool others);
  double draft_seconds(const Step& step, const Guess& guess);

  std::vector<StepTime> steps_;   // times of steps, by their number of rows
  std::vector<StepTime> drafts_;  // times of the draft model's steps, by their number of texts
  Tries free_, drafted_;
  std::vector<Guess> guesses_;         // the most probable ones first
  std::vector<int64_t> depth_counts_;  // drafted guesses in the plan so far, by Guess::before
  std::vector<int> shares_;

  static constexpr int kLeastWait = 48, kMostWait = 8 * kLeastWait;
};

}  // namespace skald
