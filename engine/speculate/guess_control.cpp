#include "engine/speculate/guess_control.h"

#include <algorithm>
#include <cmath>

namespace skald {
namespace {

constexpr double kLeastGain = 1.03;
constexpr double kFirstProbability = 0.7;  // of a right guess, assumed before any was checked
// An assumption until steps of a number of rows are measured: each further row makes a step longer
// by this share.
constexpr double kRowCost = 0.04;
constexpr double kNewShare = 0.1;  // of a new measurement in a mean
// Guesses that do not pay are seldom made, so the time of the last ones counts much.
constexpr double kNewGuessShare = 0.5;
// Guesses that do not pay are tried again after this many steps. The wait doubles after each try,
// since a try may take long: a draft model must first compute the tokens since the last one.
constexpr int kLeastWait = 48, kMostWait = 8 * kLeastWait, kTriedGuesses = 2;

void mean(double& value, double measured) { value += kNewShare * (measured - value); }

}  // namespace

GuessControl::GuessControl(int kinds, int most)
    : most_(most),
      kinds_(static_cast<size_t>(kinds), Kind{kFirstProbability, {}, 0, kLeastWait}),
      steps_(static_cast<size_t>(most) + 2) {}

// Estimates the time of a step: the time of the nearest number of rows, at most `rows`, that is
// believed, plus the cost of the further rows. The time of one row is used even if it is not.
double GuessControl::seconds_of(int rows) const {
  int known = rows;
  while (known > 1 && !steps_[static_cast<size_t>(known)].believed()) --known;
  return steps_[static_cast<size_t>(known)].seconds * (1 + kRowCost * (rows - known));
}

// Returns the tokens per second with so many guesses, divided by those without guesses.
double GuessControl::gain(int kind, int guesses) const {
  const Kind& k = kinds_[static_cast<size_t>(kind)];
  double tokens = 1, all = 1;
  for (int i = 0; i < guesses; ++i) tokens += all *= k.probability;
  return tokens * seconds_of(1) / (guesses * k.guess.seconds + seconds_of(guesses + 1));
}

GuessControl::Choice GuessControl::choose(std::span<const Offer> offers) const {
  Choice best;
  if (!steps_[1].believed()) return best;  // what guesses are compared with is not known
  double most = kLeastGain;
  for (size_t i = 0; i < offers.size(); ++i) {
    for (int guesses = 1; guesses <= std::min(offers[i].count, most_); ++guesses) {
      const double tokens = gain(offers[i].kind, guesses);
      if (tokens > most) {
        most = tokens;
        best = {i, guesses};
      }
    }
  }
  if (best.count > 0) return best;
  for (size_t i = 0; i < offers.size(); ++i) {
    const Kind& kind = kinds_[static_cast<size_t>(offers[i].kind)];
    if (kind.skipped >= kind.wait && offers[i].count > 0) {
      return {i, std::min({offers[i].count, most_, kTriedGuesses})};
    }
  }
  return best;
}

void GuessControl::skipped(std::span<const Offer> offers) {
  for (const Offer& offer : offers) {
    kinds_[static_cast<size_t>(offer.kind)].skipped += offer.count > 0;
  }
}

void GuessControl::made(int kind, int guesses, double seconds) {
  if (guesses > 0) kinds_[static_cast<size_t>(kind)].guess.add(seconds / guesses, kNewGuessShare);
}

void GuessControl::add_step(int rows, double seconds) {
  if (rows < 1 || rows >= static_cast<int>(steps_.size())) return;
  steps_[static_cast<size_t>(rows)].add(seconds, kNewShare);
}

void GuessControl::checked(int kind, int guesses, int right) {
  Kind& k = kinds_[static_cast<size_t>(kind)];
  for (int i = 0; i < right; ++i) mean(k.probability, 1);
  if (right < guesses) mean(k.probability, 0);
  k.wait = k.skipped >= k.wait ? std::min(2 * k.wait, kMostWait) : kLeastWait;
  k.skipped = 0;
  ++counts_.steps;
  counts_.guesses += guesses;
  counts_.right += right;
}

}  // namespace skald
