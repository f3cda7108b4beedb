#include "engine/schedule/step_guesses.h"

#include <algorithm>

namespace skald {
namespace {

constexpr double kNewRightShare = 0.1;  // of a new observation in a mean
// A sample whose guesses were often wrong gets no rows, so no new guess could raise its estimate.
// Therefore each step without guesses moves the estimate back to kFirstRight by this share.
constexpr double kForgotten = 0.01;

void move_mean(double& value, double observed, double share) {
  value += share * (observed - value);
}

bool is_one_row(const StepPicks::Rows& part) {
  return part.count == 1 && part.want == Want::LastRow && !part.sample->pools() &&
         !part.sample->unscored();
}

GuessedText text_of(const ScheduledSample& sample) {
  const Generation& generation = *sample.generation;
  return {sample.tokens, &generation.params, generation.streams[static_cast<size_t>(sample.index)]};
}

}  // namespace

// How many guesses the sample could get.
int StepGuesses::offered(ScheduledSample& sample, const Room& room) const {
  const Generation& generation = *sample.generation;
  if (!generation.filters.empty()) return 0;  // a mask depends on the token before it
  // The step gives one token without guesses.
  const int64_t left = generation.max_tokens - (sample.length() - sample.prompt_length()) - 1;
  const int64_t most = std::min({int64_t{most_}, left, room.context - 1 - sample.length()});
  if (most <= 0) return 0;
  if (!sample.guesses) sample.guesses = std::make_shared<GuessedSample>();
  const Offer offer = sample.guesses->proposer.offer(text_of(sample), static_cast<int>(most));
  sample.guesses->kind = offer.kind;
  return offer.count;
}

void StepGuesses::add(std::span<StepPicks::Rows> parts, const Room& room) {
  measured_ = std::all_of(parts.begin(), parts.end(), is_one_row);
  if (!measured_) return;
  offering_.clear();
  offers_.clear();
  for (StepPicks::Rows& part : parts) {
    const int count = offered(*part.sample, room);
    if (count == 0) continue;
    const GuessedSample& guesses = *part.sample->guesses;
    offering_.push_back(&part);
    offers_.push_back({guesses.right[static_cast<size_t>(guesses.kind)], count});
  }
  const auto shares = control_.share(offers_, std::ssize(parts), std::min(room.rows, rows_));
  int64_t pages = room.pages;
  for (size_t i = 0; i < offering_.size(); ++i) {
    StepPicks::Rows& part = *offering_[i];
    ScheduledSample& sample = *part.sample;
    GuessedSample& guesses = *sample.guesses;
    const int64_t more = sample.sequence.missing_pages(part.count + shares[i]) -
                         sample.sequence.missing_pages(part.count);
    if (shares[i] == 0 || more > pages) {  // guesses preempt no sample
      move_mean(guesses.right[static_cast<size_t>(guesses.kind)], GuessedSample::kFirstRight,
                kForgotten);
      continue;
    }
    pages -= more;
    const std::vector<int32_t> made = guesses.proposer.guess(text_of(sample), shares[i]);
    guesses.text.assign(sample.tokens.begin(), sample.tokens.end());
    guesses.text.insert(guesses.text.end(), made.begin(), made.end());
    part.guesses = std::ssize(made);
    part.count += part.guesses;
    part.want = Want::EveryRow;
  }
}

void StepGuesses::checked(std::span<const StepPicks::Rows> parts, double seconds) {
  int64_t rows = 0;
  bool guessed = false;
  for (const StepPicks::Rows& part : parts) {
    rows += part.count;
    if (part.guesses == 0) continue;
    guessed = true;
    ScheduledSample& sample = *part.sample;
    const int64_t right = std::clamp<int64_t>(sample.length() - part.first - 2, 0, part.guesses);
    double& likely = sample.guesses->right[static_cast<size_t>(sample.guesses->kind)];
    for (int64_t i = 0; i < right; ++i) move_mean(likely, 1, kNewRightShare);
    if (right < part.guesses && !sample.ended) move_mean(likely, 0, kNewRightShare);
    counts_.guesses += part.guesses;
    counts_.right += right;
    sample.sequence.truncate(std::min(sample.sequence.length(), sample.length() - 1));
  }
  counts_.steps += guessed;
  if (measured_) control_.took(rows, seconds);
}

}  // namespace skald
