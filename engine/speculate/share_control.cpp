#include "engine/speculate/share_control.h"

#include <algorithm>

namespace skald {
namespace {

constexpr double kLeastShareGain = 1.03;
constexpr double kNewTimeShare = 0.1;  // of a new measurement in a mean
// An assumption until steps of as many rows are measured: an eighth more rows, or one more row,
// makes a step longer by this share.
constexpr double kMoreRowsCost = 0.04;

// The numbers of rows that steps with guesses have. Each number takes a graph of its own on a GPU,
// and some steps before its time is believed.
bool has_steps(int64_t rows) {
  constexpr int64_t kAll = 16, kFourths = 64;
  return rows <= kAll || rows % (rows <= kFourths ? 4 : 16) == 0;
}

using Times = std::vector<StepTime>;

// The measured time of steps of `rows` rows. Without one, a value between the times of the nearest
// numbers of rows that were measured; 0: no time is known.
double seconds_of(const Times& times, int64_t rows) {
  const auto known = [&](int64_t at) { return times[static_cast<size_t>(at)].believed(); };
  const auto seconds = [&](int64_t at) { return times[static_cast<size_t>(at)].seconds; };
  int64_t below = rows, above = rows;
  while (below > 0 && !known(below)) --below;
  while (above < std::ssize(times) && !known(above)) ++above;
  const bool has_above = above < std::ssize(times);
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

void add_time(Times& times, int64_t rows, double seconds) {
  if (rows < std::ssize(times)) times[static_cast<size_t>(rows)].add(seconds, kNewTimeShare);
}

}  // namespace

// Lists the guesses of the sources `from`, the most probable ones first. A text's later guesses are
// less probable, so they follow its earlier ones. If a text has two sources, the draft model is
// used where its guesses are clearly more often right.
void ShareControl::list(std::span<const Source> sources, From from) {
  constexpr double kClearly = 0.1;
  guesses_.clear();
  const size_t none = sources.size();
  size_t chosen = none;  // of the text's sources
  const auto end_text = [&] {
    if (chosen == none) return;
    const double each = sources[chosen].probability;
    double probability = 1;
    for (int before = 0; before < sources[chosen].most; ++before) {
      const double wrong = probability * (1 - each);
      guesses_.push_back({probability *= each, wrong, before, chosen});
    }
    chosen = none;
  };
  const auto value = [&](const Source& source) {
    return source.probability - (source.drafted ? kClearly : 0.0);
  };
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    if (source.text < 0 || i == 0 || sources[i - 1].text != source.text) end_text();
    if (from != From::All && (from == From::Drafted) != source.drafted) continue;
    if (chosen == none || value(source) > value(sources[chosen])) chosen = i;
  }
  end_text();
  std::stable_sort(guesses_.begin(), guesses_.end(),
                   [](const Guess& a, const Guess& b) { return a.probability > b.probability; });
}

// Returns the time that a guess adds to the draft model's steps. A step of the draft model computes
// one guess of each text.
double ShareControl::draft_seconds(const Step& step, const Guess& guess) {
  const Source& source = step.sources[guess.source];
  if (!source.drafted) return 0;
  const auto depth = static_cast<size_t>(guess.before);
  if (depth_counts_.size() <= depth) depth_counts_.resize(depth + 1);
  const int64_t texts = ++depth_counts_[depth];
  const double more =
      seconds_of(drafts_, texts) - (texts > 1 ? seconds_of(drafts_, texts - 1) : 0.0);
  return more + (depth == 0 ? source.seconds : 0.0);
}

// Finds the number of guesses that gives the most tokens per second. No guesses: no number pays.
ShareControl::Plan ShareControl::best_plan(const Step& step, From from) {
  Plan best{from};
  const auto [texts, rows, most] = step.load;
  const double plain = seconds_of(steps_, rows);
  if (plain == 0) return best;  // what guesses are compared with is not known
  list(step.sources, from);
  depth_counts_.clear();
  auto tokens = static_cast<double>(texts);
  best.rate = kLeastShareGain * tokens / plain;
  double drafting = 0, again = 0;  // again: rows of later steps
  for (int64_t count = 1; count <= std::ssize(guesses_) && rows + count <= most; ++count) {
    const Guess& guess = guesses_[static_cast<size_t>(count - 1)];
    const int64_t before = step.sources[guess.source].again;
    tokens += guess.probability;
    drafting += draft_seconds(step, guess);
    if (before > 0) again += guess.wrong * static_cast<double>(before + guess.before);
    const int64_t all = rows + count;
    if (!has_steps(all)) continue;
    const double seconds = seconds_of(steps_, all);
    const double of_row = std::max(seconds - plain, 0.0) / static_cast<double>(count);
    const double rate = tokens / (seconds + drafting + again * of_row);
    if (rate <= best.rate) continue;
    best.rate = rate;
    best.guesses = count;
  }
  return best;
}

// The smallest number of guesses that a step may have. It shows whether guesses pay.
ShareControl::Plan ShareControl::fewest(const Step& step, From from) {
  list(step.sources, from);
  const int64_t rows = step.load.rows;
  int64_t count = 1;
  while (!has_steps(rows + count)) ++count;
  const bool fits = count <= std::ssize(guesses_) && rows + count <= step.load.most;
  return {from, fits ? count : 0};
}

ShareControl::Plan ShareControl::choose(const Step& step, bool drafts, bool others) {
  if (seconds_of(steps_, step.load.rows) == 0) return {};
  Plan best = others ? best_plan(step, From::Free) : Plan{};
  if (drafts) {
    const Plan all = best_plan(step, From::All);
    if (all.guesses > 0 && (best.guesses == 0 || all.rate > best.rate)) best = all;
    // Guesses that cost nothing may hide those of the draft model.
    if ((best.guesses == 0 || best.from == From::Free) && drafted_.due()) {
      const Plan tried = fewest(step, From::Drafted);
      if (tried.guesses > 0) return tried;
    }
  }
  return best.guesses == 0 && free_.due() ? fewest(step, From::Free) : best;
}

std::span<const int> ShareControl::share(std::span<const Source> sources, const Load& load) {
  shares_.assign(sources.size(), 0);
  const int64_t most = std::min(load.most, std::ssize(steps_) - 1);
  const Step step{sources, {load.texts, load.rows, most}};
  const auto drafted = [](const Source& source) { return source.drafted; };
  const bool drafts = std::any_of(sources.begin(), sources.end(), drafted);
  const bool others = !std::all_of(sources.begin(), sources.end(), drafted);
  if (sources.empty() || load.rows >= most) return shares_;
  const Plan plan = choose(step, drafts, others);
  list(sources, plan.from);
  for (int64_t i = 0; i < plan.guesses; ++i) {
    ++shares_[guesses_[static_cast<size_t>(i)].source];
  }
  bool shares_drafted = false, shares_free = false;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (shares_[i] > 0) (sources[i].drafted ? shares_drafted : shares_free) = true;
  }
  drafted_.skipped += drafts && !shares_drafted;
  free_.skipped += others && !shares_free;
  return shares_;
}

void ShareControl::made(bool drafted) {
  Tries& tries = drafted ? drafted_ : free_;
  tries.wait = tries.due() ? std::min(2 * tries.wait, kMostWait) : kLeastWait;
  tries.skipped = 0;
}

void ShareControl::add_step(int64_t rows, double seconds) { add_time(steps_, rows, seconds); }

void ShareControl::add_draft_step(int64_t texts, double seconds) {
  add_time(drafts_, texts, seconds);
}

}  // namespace skald
