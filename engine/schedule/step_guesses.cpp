#include "engine/schedule/step_guesses.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/schedule/allowed_guesses.h"
#include "engine/step/step.h"

namespace skald {
namespace {

constexpr double kNewShare = 0.1;  // of a new observation in a mean
constexpr double kNewSampleShare = 0.02;
// A sample whose guesses were often wrong gets no rows, so no new guess could raise its estimate.
// Therefore each step without guesses moves the estimate back to kFirstProbability by this share.
constexpr double kForgotten = 0.01;
constexpr int kMostFailures = 3;  // of the draft model

void move_mean(double& value, double observed, double share) {
  value += share * (observed - value);
}

// A sample with more pending rows than this gets no guesses, so that its recurrent state advances.
constexpr int64_t kMostPending = 8;

// True if the part has all pending rows of a sample in decode: the last token, and before it a few
// that a filter forced or that a recurrent state has lost.
bool in_decode(const StepPicks::Rows& part) {
  const ScheduledSample& sample = *part.sample;
  const bool few = part.count == 1 ||
                   (part.count < StepRows::kFewRows && part.first >= sample.prompt_length() - 1);
  return few && part.want == Want::LastRow && !sample.pools() && !sample.unscored();
}

// The slots in which states can be kept during the step.
int64_t slots_for_states(std::span<const StepPicks::Rows> parts) {
  int64_t slots = parts.front().sample->sequence.pool().states().free();
  for (const StepPicks::Rows& part : parts) slots -= part.sample->sequence.state() < 0;
  return slots;
}

GuessedText text_of(const ScheduledSample& sample) {
  const Generation& generation = *sample.generation;
  return {sample.tokens, &generation.params, generation.streams[static_cast<size_t>(sample.index)]};
}

int64_t new_tokens(const ScheduledSample& sample) {
  return sample.length() - sample.prompt_length();
}

}  // namespace

void SharedGuessCounts::add(const SharedGuessCounts& other) {
  steps += other.steps;
  guesses += other.guesses;
  right += other.right;
  ngram.guesses += other.ngram.guesses;
  ngram.right += other.ngram.right;
  draft.guesses += other.draft.guesses;
  draft.right += other.draft.right;
  draft_seconds += other.draft_seconds;
  if (draft_ended_by.empty()) draft_ended_by = other.draft_ended_by;
}

double& StepGuesses::probability_of(GuessedSample& sample, bool drafted) const {
  return drafted ? sample.draft_probability
                 : sample.probabilities[static_cast<size_t>(sample.kind)];
}

// Estimates in how many further steps the sample may have guesses.
double StepGuesses::steps_left(const ScheduledSample& sample) const {
  constexpr int64_t kLeastLeft = 8;
  const int64_t most = sample.generation->max_tokens - new_tokens(sample);
  if (ended_tokens_ == 0) return static_cast<double>(std::max<int64_t>(most, 1));
  const int64_t likely = static_cast<int64_t>(ended_tokens_) - new_tokens(sample);
  return static_cast<double>(std::clamp<int64_t>(likely, std::min(kLeastLeft, most), most));
}

GuessedSample& StepGuesses::guessed(ScheduledSample& sample) const {
  if (!sample.guesses) {
    sample.guesses = std::make_shared<GuessedSample>(plan_.file);
    sample.guesses->draft_probability = draft_probability_;
  }
  if (plan_.draft && !sample.guesses->draft) sample.guesses->draft = plan_.draft->new_text();
  return *sample.guesses;
}

// Lists what the sample could get.
void StepGuesses::list_sources(StepPicks::Rows& part, const Room& room) {
  ScheduledSample& sample = *part.sample;
  const Generation& generation = *sample.generation;
  if (part.count > kMostPending) return;
  // The step gives a token in any case.
  const int64_t left = generation.max_tokens - new_tokens(sample) - 1;
  const int most =
      static_cast<int>(std::min({int64_t{plan_.most}, left, room.context - 1 - sample.length()}));
  if (most <= 0) return;
  GuessedSample& guesses = guessed(sample);
  const auto list = [&](int count, bool drafted, double seconds) {
    if (count == 0) return;
    part_sources_.push_back({&part, drafted});
    const int64_t again = sample.sequence.pool().has_states() ? part.count : 0;
    sources_.push_back(
        {probability_of(guesses, drafted), count, sample.age, drafted, seconds, again});
  };
  if (plan_.ngram) {
    const Offer repeated = guesses.proposer.offer(text_of(sample), most);
    guesses.kind = repeated.kind;
    list(repeated.count, false, 0);
  }
  if (!plan_.draft) return;
  const int drafted = plan_.draft->offer(*guesses.draft, sample.tokens, most);
  list(drafted, true,
       plan_.draft->catch_up_seconds(*guesses.draft, sample.length()) / steps_left(sample));
}

void StepGuesses::add(std::span<StepPicks::Rows> parts, const Room& room) {
  measured_ = std::all_of(parts.begin(), parts.end(), in_decode);
  if (!measured_) return;
  const bool states = parts.front().sample->sequence.pool().has_states();
  int64_t slots = states ? slots_for_states(parts) : 0;
  if (states && slots <= 0) return;
  part_sources_.clear();
  sources_.clear();
  int64_t rows = 0;
  for (StepPicks::Rows& part : parts) {
    rows += part.count;
    list_sources(part, room);
  }
  const auto shares =
      control_.share(sources_, {std::ssize(parts), rows, std::min(room.rows, rows_)});
  int64_t pages = room.pages;
  bool repeats = false;
  drafting_.clear();
  requests_.clear();
  for (size_t i = 0; i < part_sources_.size(); ++i) {
    StepPicks::Rows& part = *part_sources_[i].part;
    const bool drafted = part_sources_[i].drafted;
    ScheduledSample& sample = *part.sample;
    GuessedSample& guesses = *sample.guesses;
    const int64_t more = sample.sequence.missing_pages(part.count + shares[i]) -
                         sample.sequence.missing_pages(part.count);
    // Guesses preempt no sample.
    if (shares[i] == 0 || more > pages || (states && slots == 0)) {
      move_mean(probability_of(guesses, drafted),
                drafted ? draft_probability_ : GuessedSample::kFirstProbability, kForgotten);
      continue;
    }
    pages -= more;
    slots -= states;
    if (drafted) {
      drafting_.push_back(&part);
      requests_.push_back({guesses.draft.get(), text_of(sample), shares[i]});
    } else {
      take(part, guesses.proposer.guess(text_of(sample), shares[i]), false);
      repeats = true;
    }
  }
  if (repeats) control_.made(false);
  if (!requests_.empty()) ask_draft();
}

// Lets the draft model guess for the samples of requests_.
void StepGuesses::ask_draft() {
  const double begin = clock_();
  try {
    plan_.draft->catch_up(requests_);
    plan_.draft->guess(requests_);
  } catch (const Error& error) {
    counts_.draft_seconds += clock_() - begin;
    draft_failed(error.what());
    return;
  }
  counts_.draft_seconds += clock_() - begin;
  for (const TextsProposer::DraftStep& step : plan_.draft->last_steps()) {
    control_.add_draft_step(step.texts, step.seconds);
  }
  bool made = false;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i].guesses.empty()) continue;
    take(*drafting_[i], requests_[i].guesses, true);
    made = true;
  }
  if (made) control_.made(true);
}

void StepGuesses::draft_failed(const std::string& reason) {
  if (++failures_ < kMostFailures) return;
  plan_.draft = nullptr;
  counts_.draft_ended_by = reason;
}

// Guesses that the sample has taken.
int64_t StepGuesses::right_guesses(const StepPicks::Rows& part) {
  if (part.guesses == 0) return 0;
  const std::vector<int32_t>& tokens = part.sample->tokens;
  const GuessedSample& known = *part.sample->guesses;
  size_t at = known.sure;
  while (at < std::min(tokens.size(), known.text.size()) && tokens[at] == known.text[at]) ++at;
  return static_cast<int64_t>(at - known.sure);
}

// Records what became of a guess.
void StepGuesses::saw(GuessedSample& sample, bool drafted, bool right) {
  const double value = right ? 1 : 0;
  move_mean(probability_of(sample, drafted), value, kNewShare);
  if (drafted) move_mean(draft_probability_, value, kNewSampleShare);
}

void StepGuesses::take(StepPicks::Rows& part, std::span<const int32_t> guesses, bool drafted) {
  const ScheduledSample& sample = *part.sample;
  GuessedSample& known = *sample.guesses;
  AllowedGuesses allowed;
  if (const Generation& generation = *sample.generation; !generation.filters.empty()) {
    const TokenFilter& filter = *generation.filters[static_cast<size_t>(sample.index)];
    allowed = allowed_guesses(filter, guesses, !generation.score_forced);
    if (allowed.wrong) saw(known, drafted, false);
    guesses = allowed.tokens;
  }
  if (guesses.empty()) return;
  known.masks = std::move(allowed.masks);
  known.drafted = drafted;
  known.text.assign(sample.tokens.begin(), sample.tokens.end());
  known.sure = known.text.size();
  known.text.insert(known.text.end(), guesses.begin(), guesses.end());
  part.sample->sequence.checkpoint();
  part.guesses = std::ssize(guesses);
  part.count += part.guesses;
  part.want = Want::EveryRow;
}

void StepGuesses::show(std::span<const StepPicks::Rows> parts, Executor& executor) {
  if (!plan_.draft || !plan_.draft->features()) return;
  const double begin = clock_();
  int64_t rows = 0;
  for (const StepPicks::Rows& part : parts) rows += part.count;
  try {
    const std::span<const float> all = executor.features(*plan_.draft->features(), 0, rows);
    const auto cols = all.size() / static_cast<size_t>(rows);
    computed_rows_.clear();
    size_t at = 0;
    for (const StepPicks::Rows& part : parts) {
      const auto features = all.subspan(at * cols, static_cast<size_t>(part.count) * cols);
      at += static_cast<size_t>(part.count);
      ScheduledSample& sample = *part.sample;
      const Generation& generation = *sample.generation;
      if (sample.ended || generation.max_tokens == 0) continue;
      // Rows of wrong guesses are none of the text's.
      const int64_t right = part.count - part.guesses + right_guesses(part);
      computed_rows_.push_back({guessed(sample).draft.get(), sample.tokens, part.first,
                                features.first(static_cast<size_t>(right) * cols)});
    }
    plan_.draft->computed(computed_rows_);
  } catch (const Error& error) {  // no memory for the rows; the texts need none of them
    draft_failed(error.what());
  }
  counts_.draft_seconds += clock_() - begin;
}

void StepGuesses::checked(std::span<const StepPicks::Rows> parts, double seconds) {
  int64_t rows = 0;
  bool guessed = false;
  for (const StepPicks::Rows& part : parts) {
    rows += part.count;
    ScheduledSample& sample = *part.sample;
    if (sample.ended && new_tokens(sample) > 0) {
      const auto tokens = static_cast<double>(new_tokens(sample));
      move_mean(ended_tokens_, tokens, ended_tokens_ == 0 ? 1 : kNewShare);
    }
    if (part.guesses == 0) continue;
    guessed = true;
    const int64_t right = right_guesses(part);
    const bool drafted = sample.guesses->drafted;
    for (int64_t i = 0; i < right; ++i) saw(*sample.guesses, drafted, true);
    if (right < part.guesses && !sample.ended) saw(*sample.guesses, drafted, false);
    SharedGuessCounts::Kind& kind = drafted ? counts_.draft : counts_.ngram;
    kind.guesses += part.guesses;
    kind.right += right;
    counts_.guesses += part.guesses;
    counts_.right += right;
    sample.sequence.truncate(part.first + part.count - part.guesses + right);
    sample.sequence.forget(part.first);
  }
  counts_.steps += guessed;
  if (measured_) control_.add_step(rows, seconds);
}

void StepGuesses::taken_back(std::span<const StepPicks::Rows> parts) {
  for (const StepPicks::Rows& part : parts) {
    if (part.guesses > 0) part.sample->sequence.forget(part.first);
  }
}

void StepGuesses::preempted(ScheduledSample& sample) {
  if (sample.guesses) sample.guesses->draft.reset();
}

}  // namespace skald
