#include "app/measure/bench_steps.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <variant>

#include "app/files/signals.h"
#include "engine/base/rng.h"

namespace skald {
namespace {

constexpr float kForced = std::numeric_limits<float>::infinity();  // SamplingParams::logit_bias

bool has_experts(const Program& program) {
  return std::any_of(program.ops.begin(), program.ops.end(),
                     [](const Op& op) { return std::holds_alternative<Experts>(op); });
}

}  // namespace

std::vector<int32_t> random_tokens(const Executor& executor, int64_t count, uint64_t index) {
  const double vocab = static_cast<double>(executor.program().vocab());
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(uniform(7, index, i) * vocab));
  }
  return tokens;
}

bool feed(Executor& executor, Sequence& sequence, std::span<const int32_t> tokens, int64_t rows,
          bool last_logits) {
  while (!tokens.empty()) {
    if (interrupted_by()) return false;
    const auto part = tokens.first(std::min(tokens.size(), static_cast<size_t>(rows)));
    tokens = tokens.subspan(part.size());
    const Want want = last_logits && tokens.empty() ? Want::LastRow : Want::Nothing;
    const SeqRows step{&sequence, part, want};
    executor.run({&step, 1});
    if (want == Want::LastRow) executor.logits(0);
  }
  return true;
}

bool decode(Executor& executor, std::span<BenchSequence> sequences, int64_t steps) {
  const bool forced = has_experts(executor.program());
  std::vector<SamplingParams> params(sequences.size(), SamplingParams{.temperature = 0});
  std::vector<int32_t> tokens;
  std::vector<Sequence*> texts;
  std::vector<PickRequest> requests(sequences.size());
  std::vector<SeqRows> rows(sequences.size());
  for (BenchSequence& s : sequences) {
    tokens.push_back(s.part(s.sequence.length(), 1).front());
    texts.push_back(&s.sequence);
  }
  Picks picks;
  for (int64_t i = 0; i < steps; ++i) {
    if (interrupted_by()) return false;
    for (size_t s = 0; s < rows.size(); ++s) rows[s] = {texts[s], {&tokens[s], 1}, Want::LastRow};
    if (picks.step == 0) executor.run(rows);
    for (size_t s = 0; s < rows.size(); ++s) {
      const int64_t length = texts[s]->length();
      if (forced) params[s].logit_bias.assign(1, {sequences[s].part(length, 1).front(), kForced});
      requests[s] = {&params[s], {s, length, {}, {}}};
    }
    const bool last = i + 1 == steps;
    picks = last ? Picks{executor.pick(requests)} : executor.pick_and_run(requests, texts);
    for (size_t s = 0; s < rows.size(); ++s) tokens[s] = picks.picked[s].token;
  }
  return true;
}

namespace {

// A step of `guesses` guesses for each sequence, of which the first `right` ones are kept.
void check_guesses(Executor& executor, std::span<BenchSequence> sequences, int guesses, int right) {
  const SamplingParams params{.temperature = 0};
  std::vector<SeqRows> rows;
  std::vector<PickRequest> requests;
  for (size_t s = 0; s < sequences.size(); ++s) {
    Sequence& sequence = sequences[s].sequence;
    const int64_t length = sequence.length();
    rows.push_back({&sequence, sequences[s].part(length, guesses + 1), Want::EveryRow});
    for (int row = 0; row <= guesses; ++row) {
      requests.push_back({&params, {s, length + 1 + row, {}, {}}});
    }
  }
  executor.run(rows);
  executor.pick(requests);
  for (BenchSequence& s : sequences) {
    s.sequence.truncate(s.sequence.length() - guesses + right);
  }
}

}  // namespace

int64_t decode_guessing(Executor& executor, std::span<BenchSequence> sequences, int64_t tokens,
                        const GuessedDecode& guessed) {
  GuessControl& control = guessed.control;
  using Clock = std::chrono::steady_clock;
  int64_t made = 0;
  while (made < tokens) {
    if (interrupted_by()) return 0;
    int64_t plain = 0;
    int guesses = 0;
    const Offer offer{0, control.most()};
    while (made + plain < tokens && (guesses = control.choose({&offer, 1}).count) == 0) {
      ++plain;
      control.skipped({&offer, 1});
      if (control.counts().steps == 0) break;  // the control waits for the time of such a step
    }
    auto start = Clock::now();
    const auto lap = [&] {
      const auto now = Clock::now();
      return std::chrono::duration<double>(now - std::exchange(start, now)).count();
    };
    if (plain > 0) {
      if (!decode(executor, sequences, plain)) return 0;
      control.add_step(1, lap() / static_cast<double>(plain));
      made += plain;
    }
    if (guesses == 0) continue;
    int right = 0;
    while (right < guesses &&
           uniform(guessed.seed, static_cast<uint64_t>(made), right) < guessed.accepted) {
      ++right;
    }
    check_guesses(executor, sequences, guesses, right);
    control.add_step(guesses + 1, lap());
    control.checked(0, guesses, right);
    made += right + 1;
  }
  return made;
}

bool score(Executor& executor, std::span<const TokenWindow> windows) {
  Executor* const executors[] = {&executor};
  while (!windows.empty()) {
    const auto part = windows.first(windows_in_step(executor, windows));
    windows = windows.subspan(part.size());
    const bool whole = run_windows(executors, part, [&](std::span<const WindowRow> rows) {
      std::vector<int32_t> targets;
      for (const WindowRow& row : rows) targets.push_back(row.target);
      executor.score(targets);
      return !interrupted_by();
    });
    if (!whole) return false;
  }
  return true;
}

}  // namespace skald
