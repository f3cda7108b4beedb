#include "engine/speculate/guess_control.h"

#include <algorithm>
#include <cmath>

namespace skald {
namespace {

constexpr double kLeastGain = 1.03;
constexpr double kFirstRight = 0.7;  // as likely a guess is taken to be right at first
// A row more is taken to cost this much, until steps of as many rows are measured.
constexpr double kRowCost = 0.04;
constexpr double kNewShare = 0.1;  // of a new measurement in a mean
constexpr int kProbeEach = 48, kProbeGuesses = 2;
// The first steps of as many rows set things up: a GPU loads kernels, captures a graph, and uploads
// it. So a number of rows is tried so often before its time is believed.
constexpr int kFirstSteps = 4;

void mean(double& value, double measured) { value += kNewShare * (measured - value); }

}  // namespace

GuessControl::GuessControl(int kinds, int most)
    : most_(most),
      right_(static_cast<size_t>(kinds), kFirstRight),
      seconds_(static_cast<size_t>(most) + 2),
      steps_(seconds_.size()),
      skipped_(static_cast<size_t>(kinds)) {}

// By the nearest number of rows below whose time is believed, and the cost of the rows more. The
// time of one row is always used, since there is nothing below.
double GuessControl::seconds_of(int rows) const {
  int known = rows;
  while (known > 1 && steps_[static_cast<size_t>(known)] < kFirstSteps) --known;
  return seconds_[static_cast<size_t>(known)] * (1 + kRowCost * (rows - known));
}

// Tokens per second over those without guesses.
double GuessControl::gain(int kind, int guesses) const {
  const double right = right_[static_cast<size_t>(kind)];
  double tokens = 1, all = 1;
  for (int i = 0; i < guesses; ++i) tokens += all *= right;
  return tokens * seconds_of(1) / seconds_of(guesses + 1);
}

int GuessControl::best(int kind, int available) const {
  int best = 0;
  if (seconds_[1] == 0) return 0;  // what guesses are compared with is not known yet
  double most = kLeastGain;
  for (int guesses = 1; guesses <= std::min(available, most_); ++guesses) {
    const double tokens = gain(kind, guesses);
    if (tokens > most) {
      most = tokens;
      best = guesses;
    }
  }
  return best;
}

int GuessControl::choose(int kind, int available) {
  const int chosen = best(kind, available);
  int& skipped = skipped_[static_cast<size_t>(kind)];
  if (chosen > 0 || available == 0 || ++skipped < kProbeEach) return chosen;
  return std::min({available, most_, kProbeGuesses});
}

void GuessControl::took(int rows, double seconds) {
  if (rows < 1 || rows >= static_cast<int>(seconds_.size())) return;
  double& known = seconds_[static_cast<size_t>(rows)];
  int& steps = steps_[static_cast<size_t>(rows)];
  if (++steps <= kFirstSteps) {
    known = known > 0 ? std::min(known, seconds) : seconds;  // the fastest of them counts
  } else {
    mean(known, std::min(seconds, 2 * known));  // a step in which another program ran counts little
  }
}

void GuessControl::checked(int kind, int guesses, int right) {
  double& likely = right_[static_cast<size_t>(kind)];
  for (int i = 0; i < right; ++i) mean(likely, 1);
  if (right < guesses) mean(likely, 0);
  skipped_[static_cast<size_t>(kind)] = 0;
  ++counts_.steps;
  counts_.guesses += guesses;
  counts_.right += right;
}

}  // namespace skald
