#include "app/measure/bench_steps.h"

#include <algorithm>
#include <limits>
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
