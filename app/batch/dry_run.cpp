#include "app/batch/dry_run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "app/files/signals.h"
#include "app/jobs/progress.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"

namespace skald {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void add(BatchCensus& census, const BatchJob& job, int64_t context) {
  for (const BatchPrompt& prompt : job.prompts) {
    const int64_t length = static_cast<int64_t>(prompt.prompt.size());
    census.shortest = census.texts == 0 ? length : std::min(census.shortest, length);
    census.longest = std::max(census.longest, length);
    census.prompt_tokens += length;
    census.texts += prompt.samples();
    census.most_new_tokens +=
        prompt.samples() * std::min(prompt.max_tokens, std::max<int64_t>(context - length, 0));
  }
}

// The time of a step does not depend on the tokens.
std::vector<int32_t> some_tokens(int64_t count, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * 31 % vocab));
  return tokens;
}

}  // namespace

BatchCensus take_census(JobInput& input, BatchPreparer& preparer, int64_t context) {
  constexpr int64_t kShown = 20;
  BatchCensus census;
  while (std::optional<JobLine> line = input.next()) {
    const std::unique_ptr<BatchJob> job = preparer.prepare(std::move(*line));
    ++census.lines;
    census.skipped += job->skipped;
    add(census, *job, context);
    if (!job->problem || ++census.bad > kShown) continue;
    std::fprintf(stderr, "skald: line %lld: %s: %s\n", static_cast<long long>(job->line),
                 job->problem->code.c_str(), printable(job->problem->message, 300).c_str());
  }
  if (interrupted_by()) fail_interrupted("while reading the input");
  if (census.bad > kShown) {
    std::fprintf(stderr, "skald: and %s\n", counted(census.bad - kShown, "more bad line").c_str());
  }
  return census;
}

BatchRates measure_rates(Executor& executor, int64_t sequences, int64_t prompt_length) {
  constexpr int kSteps = 4;  // the first one warms up
  const int64_t length = std::clamp<int64_t>(prompt_length, 1, executor.context() - kSteps);
  const int64_t vocab = executor.program().vocab();
  const std::vector<int32_t> tokens = some_tokens(std::min(executor.max_rows(), length), vocab);
  BatchRates rates;
  for (int step = 0; step < 2; ++step) {
    Sequence sequence = executor.new_sequence();
    const SeqRows rows{&sequence, tokens, Want::LastRow};
    const auto start = Clock::now();
    executor.run({&rows, 1});
    executor.logits(0);
    rates.prompt = static_cast<double>(tokens.size()) / seconds_since(start);
  }

  const int64_t most = executor.pages().size() / (pages_for(kSteps) + 1);
  std::vector<Sequence> texts;
  for (int64_t i = 0; i < std::min(sequences, most); ++i) texts.push_back(executor.new_sequence());
  const SamplingParams params;
  std::vector<SeqRows> rows;
  rows.reserve(texts.size());
  for (Sequence& text : texts) rows.push_back({&text, std::span(tokens).first(1), Want::LastRow});
  const std::vector<PickRequest> picks(texts.size(), PickRequest{&params, {}});
  auto start = Clock::now();
  for (int step = 0; step < kSteps; ++step) {
    if (step == 1) start = Clock::now();
    executor.run(rows);
    executor.pick(picks);
  }
  rates.text = static_cast<double>((kSteps - 1) * texts.size()) / seconds_since(start);
  return rates;
}

std::string census_text(const BatchCensus& census, const JobLimits& limits, const BatchRates& rates,
                        size_t devices) {
  const RunOptions& run = limits.run;
  std::string text = concat("lines            ", census.lines, ", ", census.bad, " bad");
  if (census.skipped > 0) text += concat(", ", census.skipped, " skipped as too long");
  text += concat("\nprompt tokens    ", census.prompt_tokens, " (", census.shortest, " to ",
                 census.longest, " each)\nnew tokens       ", census.most_new_tokens,
                 " at most, in ", counted(census.texts, "text"), "\nat a time        ",
                 counted(run.sequences, "text"), ", ", counted(run.rows, "token"), " a step, ",
                 counted(run.cache_tokens, "token"), " in the cache\nmemory           ",
                 size_text(limits.plan.needed()), devices > 1 ? " on each device" : "", ", ",
                 size_text(limits.plan.available), " can be had\n");
  if (census.texts == 0) return text;
  const double count = static_cast<double>(devices);
  const double prompts = static_cast<double>(census.prompt_tokens) / rates.prompt / count;
  const double texts = static_cast<double>(census.most_new_tokens) / rates.text / count;
  return text + concat("time             ", duration_text(prompts + texts), " at most (prompts ",
                       duration_text(prompts), ", new tokens ", duration_text(texts),
                       "), as a few steps were timed\n");
}

}  // namespace skald
