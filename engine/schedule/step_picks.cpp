#include "engine/schedule/step_picks.h"

#include <algorithm>
#include <limits>

#include "engine/base/error.h"
#include "engine/schedule/step_guesses.h"

namespace skald {

bool StepPick::follows() const {
  if (known) return false;
  if (guessed_length == 0) return true;
  if (sample->length() != guessed_length) return false;
  const auto sure = static_cast<std::ptrdiff_t>(sample->guesses->sure);
  return std::equal(sample->tokens.begin() + sure, sample->tokens.end(),
                    sample->guesses->text.begin() + sure);
}

std::span<const int32_t> StepPicks::Rows::tokens() const {
  const std::vector<int32_t>& all = guesses > 0 ? sample->guesses->text : sample->tokens;
  return std::span(all).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}

std::span<StepPick> StepPicks::pick(Executor& executor, std::span<const Rows> step) {
  requests_.clear();
  picks_.clear();
  forced_count_ = 0;
  size_t wanted = 0;
  for (const Rows& rows : step) wanted += static_cast<size_t>(rows.wanted());
  // Resized once, because requests point to elements
  if (forced_.size() < wanted) forced_.resize(wanted);
  for (const Rows& rows : step) {
    if (!rows.sample->pools()) add(rows);
  }
  if (requests_.empty()) return {};
  try {
    std::vector<Picked> picked = executor.pick(requests_);
    for (size_t i = 0; i < picked.size(); ++i) picks_[i].picked = std::move(picked[i]);
  } catch (const Error& error) {
    if (error.code() == Exit::Memory) throw;
    pick_one_by_one(executor);
  }
  return picks_;
}

void StepPicks::add(const Rows& rows) {
  ScheduledSample& sample = *rows.sample;
  if (rows.guesses > 0) {
    add_guessed(rows);
  } else if (rows.want == Want::EveryRow) {
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t position = rows.first + i;
      position + 1 < sample.length() ? add_scored(sample, position) : add_next(sample);
    }
  } else if (rows.want == Want::LastRow) {
    add_next(sample);
  }
}

// Adds a pick whose settings force the known token. The reported log-probabilities do not depend on
// these settings.
void StepPicks::add_scored(ScheduledSample& sample, int64_t position) {
  const int32_t token = sample.tokens[static_cast<size_t>(position + 1)];
  SamplingParams& params = forced_[forced_count_++];
  params.temperature = 0;
  params.top_logprobs = sample.generation->params.top_logprobs;
  params.logit_bias.assign(1, {token, std::numeric_limits<float>::infinity()});
  requests_.push_back({&params, {0, position + 1, {}, {}}});
  picks_.push_back({&sample, true, {}, ""});
}

// Requests the next token, and the tokens that follow it if the guesses before them are right. A
// step has a pick of each wanted row, also of tokens that are computed again.
void StepPicks::add_guessed(const Rows& rows) {
  ScheduledSample& sample = *rows.sample;
  const Generation& generation = *sample.generation;
  const uint64_t stream = generation.streams[static_cast<size_t>(sample.index)];
  for (int64_t again = rows.count - rows.guesses - 1; again > 0; --again) {
    requests_.push_back({&greedy_, {0, sample.length() - again, {}, {}}});
    picks_.push_back({&sample, false, {}, "", 0, true});
  }
  add_next(sample);
  const std::span<const int32_t> text(sample.guesses->text);
  auto mask = sample.guesses->masks.begin();
  for (int64_t length = sample.length() + 1; length <= std::ssize(text); ++length) {
    const auto before = text.first(static_cast<size_t>(length));
    requests_.push_back({&generation.params, {stream, length, before, {}}});
    if (mask != sample.guesses->masks.end()) requests_.back().context.allowed = *mask++;
    picks_.push_back({&sample, false, {}, "", length});
  }
}

void StepPicks::add_next(ScheduledSample& sample) {
  Generation& generation = *sample.generation;
  const size_t index = static_cast<size_t>(sample.index);
  SampleContext context{generation.streams[index], sample.length(), sample.tokens, {}};
  StepPick pick{&sample, false, {}, ""};
  if (!generation.filters.empty()) {
    try {
      context.allowed = generation.filters[index]->allowed();
    } catch (const Error& error) {
      pick.problem = error.what();
    }
  }
  requests_.push_back({&generation.params, context});
  picks_.push_back(std::move(pick));
}

void StepPicks::pick_one_by_one(Executor& executor) {
  for (size_t i = 0; i < requests_.size(); ++i) {
    try {
      picks_[i].picked = sampler_.pick(executor.logits(static_cast<int64_t>(i)),
                                       *requests_[i].params, requests_[i].context);
    } catch (const Error& error) {
      if (error.code() == Exit::Memory) throw;
      if (picks_[i].problem.empty()) picks_[i].problem = error.what();
    }
  }
}

}  // namespace skald
