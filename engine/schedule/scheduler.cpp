#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/schedule/step_choice.h"
#include "engine/schedule/step_pools.h"

namespace skald {
namespace {

// Adds its own lifetime to `seconds`.
class Stopwatch {
 public:
  Stopwatch(const SecondsClock& clock, double& seconds) : clock_(clock), seconds_(seconds) {}
  ~Stopwatch() { seconds_ += clock_() - start_; }

 private:
  const SecondsClock& clock_;
  double& seconds_;
  double start_ = clock_();
};

}  // namespace

Scheduler::Scheduler(Executor& executor, SchedulerLimits limits, SecondsClock clock)
    : executor_(executor),
      limits_(std::move(limits)),
      clock_(std::move(clock)),
      swap_(executor, limits_.swap, clock_),
      prefixes_(executor.pages()),
      admission_(executor.pages(), prefixes_, executor.context()) {
  const int64_t most = executor.max_rows();
  limits_.rows = limits_.rows > 0 ? std::min(limits_.rows, most) : most;
  limits_.sequences = std::max<int64_t>(std::min(limits_.sequences, limits_.rows), 1);
  if (limits_.guesses.most > 0) {
    guesses_.emplace(limits_.guesses, std::min(most, executor.logit_rows()), clock_);
  }
}

void Scheduler::add(Generation& generation) {
  const int64_t length = static_cast<int64_t>(generation.prompt.size());
  check(length > 0 && length <= executor_.context(), "a prompt has tokens and fits the context");
  check(generation.samples() > 0, "a generation has samples");
  const bool pools = generation.pooling != Pooling::None;
  check(!pools || (generation.samples() == 1 && generation.max_tokens == 0),
        "a generation that gives a vector has one sample and no new token");
  // Pages without the recurrent state that belongs to them are of no use to other samples.
  const bool shares = !executor_.pages().has_states();
  const auto hashes =
      shares ? page_hashes(generation.prompt, generation.adapter) : std::vector<uint64_t>();
  const bool scores = generation.score_prompt && length > 1;
  for (int index = 0; index < generation.samples(); ++index) {
    auto sample = std::make_unique<ScheduledSample>(
        ScheduledSample{&generation, index, added_++, generation.prompt, hashes,
                        executor_.new_sequence(generation.adapter)});
    const bool nothing_to_do = generation.max_tokens == 0 && !pools && !(scores && index == 0);
    if (nothing_to_do) {
      finished_.push_back(std::move(sample));
    } else {
      sample->tokens.reserve(
          static_cast<size_t>(std::min(length + generation.max_tokens, executor_.context()) + 1));
      admission_.add(std::move(sample));
    }
  }
}

std::span<GenerationEvent> Scheduler::step() {
  events_.clear();
  for (const auto& sample : std::exchange(finished_, {})) end(*sample, Ending::Length);
  drop_cancelled();
  counts_.shared_tokens += admission_.admit(running_, limits_.sequences);
  for (const auto& sample : running_) bring_back(*sample);
  choose_rows(running_, limits_.rows, parts_);
  make_room();
  if (guesses_ && !parts_.empty()) add_guesses();
  std::stable_partition(parts_.begin(), parts_.end(),
                        [](const StepPicks::Rows& part) { return !part.sample->pools(); });
  if (!parts_.empty()) compute();
  remove_ended();
  return events_;
}

void Scheduler::compute() {
  const double busy = counts_.busy_seconds;
  if (!run()) return;
  remember_prefixes();
  const std::optional<std::span<StepPick>> picked = pick();
  if (!picked) return;
  const std::span<StepPick> picks = *picked;
  int64_t rows = 0, of_prompts = 0;
  for (const StepPicks::Rows& part : parts_) {
    rows += part.count;
    of_prompts += part.count > 1 && part.guesses == 0 ? part.count : 0;
  }
  swap_.times().ran(rows, of_prompts, counts_.busy_seconds - busy);
  if (!picks.empty()) swap_.times().finished(0);
  for (StepPick& pick : picks) deliver(pick);
  const double step_seconds = counts_.busy_seconds - busy;
  if (guesses_) {
    show_rows();
    if (!picks.empty()) guesses_->checked(parts_, step_seconds);
    counts_.guesses = guesses_->counts();
  }
  // A prompt that is only scored or pooled ends without a new token.
  for (const auto& sample : running_) {
    if (!sample->ended && sample->pending() == 0) end_prompt(*sample);
  }
}

void Scheduler::end_prompt(ScheduledSample& sample) {
  if (sample.pools()) {
    std::vector<float> vector = pooled_vector(sample);
    if (vector.empty()) {
      end(sample, Ending::Failed, "the model's vector of the text has NaN or infinity");
      return;
    }
    events_.push_back({sample.generation,
                       sample.index,
                       GenerationEvent::Kind::Vector,
                       Ending::Stop,
                       {},
                       "",
                       std::move(vector)});
  }
  end(sample, Ending::Length);
}

void Scheduler::drop_cancelled() {
  for (const auto& sample : admission_.take_cancelled()) end(*sample, Ending::Cancelled);
  for (const auto& sample : running_) {
    if (sample->cancelled()) end(*sample, Ending::Cancelled);
  }
  remove_ended();
}

// Pages for the step, for the oldest samples first; the youngest samples are preempted if needed.
void Scheduler::make_room() {
  int64_t taken = 0;
  for (StepPicks::Rows& part : parts_) {
    if (part.count == 0) continue;  // preempted for an older sample
    const int64_t pages = part.sample->sequence.missing_pages(part.count);
    if (make_room(*part.sample, taken + pages)) taken += pages;
  }
  std::erase_if(parts_, [](const StepPicks::Rows& part) { return part.count == 0; });
}

// Returns false if the sample itself was preempted.
bool Scheduler::make_room(const ScheduledSample& sample, int64_t pages) {
  const PagePool& pool = executor_.pages();
  while (pool.free_pages() < pages) {
    if (prefixes_.release_one()) continue;
    ScheduledSample& youngest = *running_.back();
    const bool alone = running_.size() == 1;
    if (alone && prefixes_.pages() > 0) {
      prefixes_.clear();
      continue;
    }
    check(!alone, "the cache holds one sample at full length");
    const bool itself = &youngest == &sample;
    preempt(youngest);
    if (itself) return false;
  }
  return true;
}

void Scheduler::preempt(ScheduledSample& sample) {
  ++counts_.preemptions;
  for (StepPicks::Rows& part : parts_) {
    if (part.sample == &sample) part.count = 0;
  }
  swap_out(sample);
  StepGuesses::preempted(sample);
  sample.sequence.truncate(0);
  const auto place = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& other) { return other.get() == &sample; });
  admission_.add(std::move(*place));
  running_.erase(place);
}

// Keeps a part of the sample's cache in the host's memory, if that pays.
void Scheduler::swap_out(ScheduledSample& sample) {
  const int64_t length = sample.sequence.length();
  if (sample.swapped && sample.swapped->length() >= length) return;  // not back yet
  const Stopwatch stopwatch(clock_, counts_.busy_seconds);
  if (sample.swapped) --counts_.swapped;  // was never brought back
  sample.swapped = swap_.save(sample.sequence, pages_of_others(sample));
  if (sample.swapped) ++counts_.swapped;
}

// The first pages of the sample that other samples have too. The prefix index is one more owner of
// a prompt's page, and the first to give it up when the cache is full.
int64_t Scheduler::pages_of_others(const ScheduledSample& sample) const {
  const std::span<const int32_t> pages = sample.sequence.pages();
  size_t count = 0;
  while (count < pages.size()) {
    const int32_t known = count < sample.hashes.size() ? 2 : 1;
    if (executor_.pages().owners(pages[count]) <= known) break;
    ++count;
  }
  return static_cast<int64_t>(count);
}

// Continues the sequence of an admitted sample with its swapped pages, once it has those before
// them. Its last tokens are computed if there is no memory.
void Scheduler::bring_back(ScheduledSample& sample) {
  Sequence& sequence = sample.sequence;
  if (!sample.swapped || sequence.length() < sample.swapped->first_token()) return;
  const auto swapped = std::move(sample.swapped);
  const int64_t before = sequence.length(), tokens = swapped->length() - before;
  if (tokens <= 0) return;  // other samples had computed more
  const Stopwatch stopwatch(clock_, counts_.busy_seconds);
  const int64_t pages = sequence.missing_pages(tokens);
  while (executor_.pages().free_pages() < pages && prefixes_.release_one()) {
  }
  if (!swap_.restore(*swapped, sequence)) {
    --counts_.swapped;
    return;
  }
  counts_.swapped_tokens += tokens;
  remember(sample, before);
}

bool Scheduler::run() {
  rows_.clear();
  for (const StepPicks::Rows& part : parts_) {
    rows_.push_back({&part.sample->sequence, part.tokens(), part.want});
    counts_.computed_tokens += part.count;
  }
  const Stopwatch stopwatch(clock_, counts_.busy_seconds);
  try {
    executor_.run(rows_);
    ++counts_.steps;
    return true;
  } catch (const Error& error) {
    if (error.code() != Exit::Memory) throw;
    out_of_memory(error.what());
    return false;
  }
}

// Nothing: the device ran out of memory, and the step was taken back.
std::optional<std::span<StepPick>> Scheduler::pick() {
  const Stopwatch stopwatch(clock_, counts_.busy_seconds);
  try {
    pool_rows(executor_, parts_);
    return picks_.pick(executor_, parts_);
  } catch (const Error& error) {
    if (error.code() != Exit::Memory) throw;
    out_of_memory(error.what());
    return std::nullopt;
  }
}

void Scheduler::add_guesses() {
  int64_t pages = executor_.pages().free_pages();
  for (const StepPicks::Rows& part : parts_)
    pages -= part.sample->sequence.missing_pages(part.count);
  const double before = guesses_->counts().draft_seconds;
  guesses_->add(parts_, {limits_.rows, pages, executor_.context()});
  counts_.guesses = guesses_->counts();
  counts_.busy_seconds += counts_.guesses.draft_seconds - before;
}

void Scheduler::show_rows() {
  const double before = guesses_->counts().draft_seconds;
  guesses_->show(parts_, executor_);
  counts_.busy_seconds += guesses_->counts().draft_seconds - before;
}

// Steps without guesses need less memory.
void Scheduler::out_of_memory(const std::string& problem) {
  take_back_step();
  const bool guessed = std::any_of(parts_.begin(), parts_.end(),
                                   [](const StepPicks::Rows& part) { return part.guesses > 0; });
  guessed ? guesses_.reset() : lower_load(problem);
}

// Call it after a step that failed, or whose picks failed: its tokens do not count as computed. The
// executor may already have cut a sequence further back, to its last checkpoint.
void Scheduler::take_back_step() {
  for (const StepPicks::Rows& part : parts_) {
    Sequence& sequence = part.sample->sequence;
    sequence.truncate(std::min(part.first, sequence.length()));
  }
  StepGuesses::taken_back(parts_);
}

// Called when the device ran out of memory in a step: the next steps are smaller.
void Scheduler::lower_load(const std::string& problem) {
  ++counts_.lowered;
  if (running_.size() == 1 && limits_.rows == 1) {
    end(*running_.front(), Ending::Failed, problem);
    return;
  }
  limits_.rows = std::max<int64_t>(limits_.rows / 2, 1);
  limits_.sequences = std::min(std::max<int64_t>(running() / 2, 1), limits_.rows);
  while (running() > limits_.sequences) preempt(*running_.back());
}

void Scheduler::remember_prefixes() {
  for (const StepPicks::Rows& part : parts_) remember(*part.sample, part.first);
}

// Lets other samples share what the sequence holds of the prompt, if it is more than `from` tokens.
void Scheduler::remember(const ScheduledSample& sample, int64_t from) {
  const int64_t whole = static_cast<int64_t>(sample.hashes.size());
  const int64_t before = std::min(from / kPageTokens, whole);
  const int64_t now = std::min(sample.sequence.length() / kPageTokens, whole);
  if (now > before) prefixes_.insert(sample.tokens, sample.hashes, now, sample.sequence);
}

void Scheduler::deliver(StepPick& pick) {
  ScheduledSample& sample = *pick.sample;
  if (sample.ended || !pick.follows()) return;
  if (!pick.problem.empty()) {
    end(sample, Ending::Failed, std::move(pick.problem));
  } else if (pick.of_prompt) {
    ++sample.scored;
    events_.push_back({sample.generation, sample.index, GenerationEvent::Kind::PromptToken,
                       Ending::Stop, std::move(pick.picked)});
  } else {
    deliver_next(sample, std::move(pick.picked));
  }
}

void Scheduler::deliver_next(ScheduledSample& sample, Picked picked) {
  const Generation& generation = *sample.generation;
  if (!take(sample, std::move(picked)) || generation.filters.empty() || generation.score_forced)
    return;
  TokenFilter& filter = *generation.filters[static_cast<size_t>(sample.index)];
  while (!filter.forced().empty()) {
    Picked forced;
    forced.token = filter.forced().front();
    if (!take(sample, std::move(forced))) return;
  }
}

// Appends a token and reports it. Returns false if it was the last one.
bool Scheduler::take(ScheduledSample& sample, Picked picked) {
  const Generation& generation = *sample.generation;
  const int32_t token = picked.token;
  ++counts_.new_tokens;
  sample.tokens.push_back(token);
  events_.push_back({sample.generation, sample.index, GenerationEvent::Kind::Token, Ending::Stop,
                     std::move(picked)});
  const auto& stops = generation.stops;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    end(sample, Ending::Stop);
    return false;
  }
  if (!generation.filters.empty()) {
    TokenFilter& filter = *generation.filters[static_cast<size_t>(sample.index)];
    try {
      filter.accept(token);
    } catch (const Error& error) {
      end(sample, Ending::Failed, error.what());
      return false;
    }
    if (filter.finished()) {
      end(sample, Ending::Stop);
      return false;
    }
  }
  if (sample.length() - sample.prompt_length() >= generation.max_tokens) {
    end(sample, Ending::Length);
    return false;
  }
  if (sample.length() >= executor_.context()) {
    end(sample, Ending::Context);
    return false;
  }
  return true;
}

void Scheduler::end(ScheduledSample& sample, Ending ending, std::string problem) {
  sample.ended = true;
  events_.push_back({sample.generation,
                     sample.index,
                     GenerationEvent::Kind::End,
                     ending,
                     {},
                     std::move(problem)});
}

void Scheduler::remove_ended() {
  std::erase_if(running_, [](const auto& sample) { return sample->ended; });
}

}  // namespace skald
