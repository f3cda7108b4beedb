#include "engine/speculate/share_control.h"

#include <algorithm>

namespace skald {
namespace {

constexpr double kLeastShareGain = 1.03;
constexpr double kNewTimeShare = 0.1;  // of a new measurement in a mean
// An assumption for steps of more rows than any measured step: an eighth more rows (at least one
// more) make a step longer by this share.
constexpr double kMoreRowsCost = 0.04;

// True if steps with guesses may have this number of rows. The numbers are few, because each takes
// a graph of its own on a GPU, and several steps before its time is believed.
bool is_allowed(int64_t rows) {
  constexpr int64_t kAll = 16, kFourths = 64;
  return rows <= kAll || rows % (rows <= kFourths ? 4 : 16) == 0;
}

}  // namespace

// The measured time of steps of `rows` rows. Without one, a value between the times of the nearest
// numbers of rows that were measured; 0: no time is known.
double ShareControl::seconds_of(int64_t rows) const {
  const auto known = [&](int64_t at) { return steps_[static_cast<size_t>(at)].believed(); };
  const auto seconds = [&](int64_t at) { return steps_[static_cast<size_t>(at)].seconds; };
  int64_t below = rows, above = rows;
  while (below > 0 && !known(below)) --below;
  while (above < std::ssize(steps_) && !known(above)) ++above;
  const bool has_above = above < std::ssize(steps_);
  if (below == rows) return seconds(rows);
  if (below == 0) return has_above ? seconds(above) : 0;
  const auto more = static_cast<double>(rows - below);
  if (!has_above) {
    const double eighths = more / std::max(1.0, static_cast<double>(below) / 8);
    return seconds(below) * (1 + kMoreRowsCost * eighths);
  }
  const double slope = (seconds(above) - seconds(below)) / static_cast<double>(above - below);
  return seconds(below) + std::max(slope, 0.0) * more;
}

// The number of rows that gives the most tokens per second, if the likeliest guesses fill the rows
// beyond `sequences`. The result `sequences` means no guesses.
int64_t ShareControl::best_rows(int64_t sequences, int64_t rows) {
  const double plain = seconds_of(sequences);
  if (plain == 0) return sequences;  // the time without guesses is not known yet
  const bool tries = skipped_ >= wait_;
  double most = kLeastShareGain * static_cast<double>(sequences) / plain;
  double tokens = static_cast<double>(sequences);
  int64_t best = sequences;
  for (int64_t count = 1; count <= std::ssize(guesses_) && sequences + count <= rows; ++count) {
    tokens += guesses_[static_cast<size_t>(count - 1)].right;
    const int64_t all = sequences + count;
    if (!is_allowed(all)) continue;
    if (tries && best == sequences) best = all;  // the fewest guesses, unless others pay
    const double rate = tokens / seconds_of(all);
    if (rate <= most) continue;
    most = rate;
    best = all;
  }
  return best;
}

std::span<const int> ShareControl::share(std::span<const Offer> offers, int64_t sequences,
                                         int64_t rows) {
  shares_.assign(offers.size(), 0);
  guesses_.clear();
  for (size_t i = 0; i < offers.size(); ++i) {
    double right = 1;
    for (int count = 0; count < offers[i].most; ++count) {
      guesses_.push_back({right *= offers[i].right, i});
    }
  }
  rows = std::min(rows, std::ssize(steps_) - 1);
  if (guesses_.empty() || sequences >= rows) return shares_;
  // A sequence's later guesses are less likely, so they follow its earlier ones.
  std::stable_sort(guesses_.begin(), guesses_.end(),
                   [](const Guess& a, const Guess& b) { return a.right > b.right; });
  const int64_t count = best_rows(sequences, rows) - sequences;
  if (count == 0) {
    ++skipped_;
    return shares_;
  }
  for (int64_t i = 0; i < count; ++i) ++shares_[guesses_[static_cast<size_t>(i)].offer];
  wait_ = skipped_ >= wait_ ? std::min(2 * wait_, kMostWait) : kLeastWait;
  skipped_ = 0;
  return shares_;
}

void ShareControl::took(int64_t rows, double seconds) {
  if (rows < std::ssize(steps_)) steps_[static_cast<size_t>(rows)].add(seconds, kNewTimeShare);
}

}  // namespace skald
