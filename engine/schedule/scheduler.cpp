#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/error.h"
#include "engine/schedule/step_choice.h"

namespace skald {
namespace {

// Adds the time that it lives.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Scheduler::Scheduler(Executor& executor, SchedulerLimits limits)
    : executor_(executor),
      limits_(limits),
      prefixes_(executor.pages()),
      admission_(executor.pages(), prefixes_, executor.context()) {
  const int64_t most = executor.max_rows();
  limits_.rows = limits.rows > 0 ? std::min(limits.rows, most) : most;
  limits_.sequences = std::max<int64_t>(std::min(limits.sequences, limits_.rows), 1);
}

void Scheduler::add(Generation& generation) {
  const int64_t length = static_cast<int64_t>(generation.prompt.size());
  check(length > 0 && length <= executor_.context(), "a prompt has tokens and fits the context");
  check(generation.samples() > 0, "a generation has samples");
  const std::vector<uint64_t> hashes = page_hashes(generation.prompt);
  const bool scores = generation.score_prompt && length > 1;
  for (int sample = 0; sample < generation.samples(); ++sample) {
    auto text = std::make_unique<ScheduledText>(ScheduledText{
        &generation, sample, added_++, generation.prompt, hashes, executor_.new_sequence()});
    const bool nothing_to_do = generation.max_tokens == 0 && !(scores && sample == 0);
    if (nothing_to_do) {
      done_.push_back(std::move(text));
    } else {
      text->tokens.reserve(
          static_cast<size_t>(std::min(length + generation.max_tokens, executor_.context()) + 1));
      admission_.add(std::move(text));
    }
  }
}

std::span<GenerationEvent> Scheduler::step() {
  events_.clear();
  for (const auto& text : std::exchange(done_, {})) end(*text, Ending::Length);
  drop_cancelled();
  counts_.shared_tokens += admission_.admit(running_, limits_.sequences);
  choose_rows(running_, limits_.rows, parts_);
  make_room();
  if (!parts_.empty() && run()) {
    remember_prefixes();
    for (StepPick& pick : pick()) deliver(pick);
    // A prompt that is only scored ends without a token.
    for (const auto& text : running_) {
      if (!text->ended && text->pending() == 0) end(*text, Ending::Length);
    }
  }
  remove_ended();
  return events_;
}

void Scheduler::drop_cancelled() {
  for (const auto& text : admission_.take_cancelled()) end(*text, Ending::Cancelled);
  for (const auto& text : running_) {
    if (text->cancelled()) end(*text, Ending::Cancelled);
  }
  remove_ended();
}

// The oldest texts get their pages first; the youngest give theirs.
void Scheduler::make_room() {
  int64_t taken = 0;
  for (StepPicks::Rows& part : parts_) {
    if (part.count == 0) continue;  // it was preempted for an older one
    const int64_t pages = part.text->sequence.missing_pages(part.count);
    if (make_room(*part.text, taken + pages)) taken += pages;
  }
  std::erase_if(parts_, [](const StepPicks::Rows& part) { return part.count == 0; });
}

// False: the text itself was preempted.
bool Scheduler::make_room(const ScheduledText& text, int64_t pages) {
  const PagePool& pool = executor_.pages();
  while (pool.free_pages() < pages) {
    if (prefixes_.release_one()) continue;
    ScheduledText& youngest = *running_.back();
    const bool alone = running_.size() == 1;
    if (alone && prefixes_.pages() > 0) {
      prefixes_.clear();
      continue;
    }
    check(!alone, "the cache holds one text in full");
    const bool itself = &youngest == &text;
    preempt(youngest);
    if (itself) return false;
  }
  return true;
}

void Scheduler::preempt(ScheduledText& text) {
  ++counts_.preemptions;
  for (StepPicks::Rows& part : parts_) {
    if (part.text == &text) part.count = 0;
  }
  text.sequence.truncate(0);
  const auto place = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& other) { return other.get() == &text; });
  admission_.add(std::move(*place));
  running_.erase(place);
}

bool Scheduler::run() {
  rows_.clear();
  for (const StepPicks::Rows& part : parts_) {
    const auto tokens =
        std::span(part.text->tokens)
            .subspan(static_cast<size_t>(part.first), static_cast<size_t>(part.count));
    rows_.push_back({&part.text->sequence, tokens, part.want});
    counts_.computed_tokens += part.count;
  }
  const Stopwatch stopwatch(counts_.busy_seconds);
  try {
    executor_.run(rows_);
    ++counts_.steps;
    return true;
  } catch (const Error& error) {
    if (error.code() != Exit::Memory) throw;
    lower_load(error.what());
    return false;
  }
}

std::span<StepPick> Scheduler::pick() {
  const Stopwatch stopwatch(counts_.busy_seconds);
  try {
    return picks_.pick(executor_, parts_);
  } catch (const Error& error) {
    if (error.code() != Exit::Memory) throw;
    for (const StepPicks::Rows& part : parts_) part.text->sequence.truncate(part.first);
    lower_load(error.what());
    return {};
  }
}

// The device had no memory for the step: the next ones are smaller.
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
  for (const StepPicks::Rows& part : parts_) {
    const ScheduledText& text = *part.text;
    const int64_t whole = static_cast<int64_t>(text.hashes.size());
    const int64_t before = std::min(part.first / kPageTokens, whole);
    const int64_t now = std::min(text.sequence.length() / kPageTokens, whole);
    if (now > before) prefixes_.insert(text.tokens, text.hashes, now, text.sequence);
  }
}

void Scheduler::deliver(StepPick& pick) {
  ScheduledText& text = *pick.text;
  if (text.ended) return;
  if (!pick.problem.empty()) {
    end(text, Ending::Failed, std::move(pick.problem));
  } else if (pick.of_prompt) {
    ++text.scored;
    events_.push_back({text.generation, text.sample, GenerationEvent::Kind::PromptToken,
                       Ending::Stop, std::move(pick.picked)});
  } else {
    deliver_next(text, std::move(pick.picked));
  }
}

void Scheduler::deliver_next(ScheduledText& text, Picked picked) {
  const Generation& generation = *text.generation;
  const int32_t token = picked.token;
  ++counts_.new_tokens;
  text.tokens.push_back(token);
  events_.push_back({text.generation, text.sample, GenerationEvent::Kind::Token, Ending::Stop,
                     std::move(picked)});
  const auto& stops = generation.stops;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    end(text, Ending::Stop);
    return;
  }
  if (!generation.filters.empty()) {
    TokenFilter& filter = *generation.filters[static_cast<size_t>(text.sample)];
    try {
      filter.accept(token);
    } catch (const Error& error) {
      end(text, Ending::Failed, error.what());
      return;
    }
    if (filter.finished()) {
      end(text, Ending::Stop);
      return;
    }
  }
  if (text.length() - text.prompt_length() >= generation.max_tokens) {
    end(text, Ending::Length);
  } else if (text.length() >= executor_.context()) {
    end(text, Ending::Context);
  }
}

void Scheduler::end(ScheduledText& text, Ending ending, std::string problem) {
  text.ended = true;
  events_.push_back(
      {text.generation, text.sample, GenerationEvent::Kind::End, ending, {}, std::move(problem)});
}

void Scheduler::remove_ended() {
  std::erase_if(running_, [](const auto& text) { return text->ended; });
}

}  // namespace skald
