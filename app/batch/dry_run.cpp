#include "app/batch/dry_run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "app/files/json.h"
#include "app/files/signals.h"
#include "app/jobs/progress.h"
#include "app/model/cache_types.h"
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

BatchRates measure_rates(Executor& executor, int64_t sequences, const BatchCensus& census) {
  constexpr int kSteps = 4;  // the first one warms up
  const int64_t most_length = executor.context() - kSteps;
  const int64_t texts = std::max<int64_t>(census.texts, 1);
  const int64_t prompt = std::clamp<int64_t>(census.prompt_tokens / texts, 1, most_length);
  const int64_t vocab = executor.program().vocab();
  const std::vector<int32_t> tokens = some_tokens(std::min(executor.max_rows(), prompt), vocab);
  BatchRates rates;
  for (int step = 0; step < 2; ++step) {
    Sequence sequence = executor.new_sequence();
    const SeqRows rows{&sequence, tokens, Want::LastRow};
    const auto start = Clock::now();
    executor.run({&rows, 1});
    executor.logits(0);
    rates.prompt = static_cast<double>(tokens.size()) / seconds_since(start);
  }
  if (census.most_new_tokens == 0) return rates;

  // All texts continue one beginning, which is computed once and as long as texts are on average.
  const int64_t length =
      std::clamp<int64_t>(prompt + census.most_new_tokens / texts / 2, 1, most_length);
  std::vector<Sequence> copies;
  copies.push_back(executor.new_sequence());
  while (copies.front().length() < length) {
    const int64_t rest = length - copies.front().length();
    const std::vector<int32_t> part = some_tokens(std::min(executor.max_rows(), rest), vocab);
    const SeqRows rows{&copies.front(), part, Want::Nothing};
    executor.run({&rows, 1});
  }
  const int64_t most = (executor.pages().size() - pages_for(length)) / (pages_for(kSteps) + 1) + 1;
  const int64_t count = std::max<int64_t>(std::min({sequences, most, executor.max_rows()}), 1);
  for (int64_t i = 1; i < count; ++i) {
    copies.push_back(copies.front().fork());
  }
  const SamplingParams params;
  std::vector<SeqRows> rows;
  rows.reserve(copies.size());
  for (Sequence& text : copies) {
    rows.push_back({&text, std::span(tokens).first(1), Want::LastRow});
  }
  const std::vector<PickRequest> picks(rows.size(), PickRequest{&params, {}});
  auto start = Clock::now();
  for (int step = 0; step < kSteps; ++step) {
    if (step == 1) start = Clock::now();
    executor.run(rows);
    executor.pick(picks);
  }
  rates.text = static_cast<double>((kSteps - 1) * rows.size()) / seconds_since(start);
  return rates;
}

double BatchEstimate::prompt_seconds() const {
  if (census.prompt_tokens == 0) return 0;
  return static_cast<double>(census.prompt_tokens) / rates.prompt / static_cast<double>(devices);
}

double BatchEstimate::text_seconds() const {
  if (census.most_new_tokens == 0) return 0;
  return static_cast<double>(census.most_new_tokens) / rates.text / static_cast<double>(devices);
}

std::string to_text(const BatchEstimate& estimate) {
  const BatchCensus& census = estimate.census;
  const RunOptions& run = estimate.limits.run;
  const MemoryPlan& plan = estimate.limits.plan;
  std::string text = concat("lines            ", census.lines, ", ", census.bad, " bad");
  if (census.skipped > 0) text += concat(", ", census.skipped, " skipped as too long");
  text += concat(
      "\nprompt tokens    ", census.prompt_tokens, " (", census.shortest, " to ", census.longest,
      " each)\nnew tokens       ", census.most_new_tokens, " at most, in ",
      counted(census.texts, "text"), "\nat a time        ", counted(run.sequences, "text"), ", ",
      counted(run.rows, "token"), " a step, ", counted(run.cache_tokens, "token"), " in the cache",
      run.cache_types.any() ? concat(" as ", to_text(plan.cache_types)) : "", "\nmemory           ",
      size_text(plan.needed()), estimate.devices > 1 ? " on each device" : "", ", ",
      size_text(plan.available), " can be had\n");
  if (census.texts == 0) return text;
  text += concat("time             ", duration_text(estimate.seconds()), " at most (prompts ",
                 duration_text(estimate.prompt_seconds()), ", new tokens ",
                 duration_text(estimate.text_seconds()), "), as a few steps were timed\n");
  if (estimate.gpus == 0) return text;
  char hours[32];
  std::snprintf(hours, sizeof hours, estimate.gpu_hours() < 0.1 ? "%.2g" : "%.2f",
                estimate.gpu_hours());
  return text + concat("GPU hours        ", hours, " at most, on ",
                       counted(static_cast<int64_t>(estimate.gpus), "GPU"), "\n");
}

Json to_json(const BatchEstimate& estimate) {
  const BatchCensus& census = estimate.census;
  const RunOptions& run = estimate.limits.run;
  Json json = {{"lines", census.lines},
               {"bad", census.bad},
               {"skipped", census.skipped},
               {"texts", census.texts},
               {"tokens_in", census.prompt_tokens},
               {"most_tokens_out", census.most_new_tokens},
               {"max_seqs", run.sequences},
               {"max_tokens_per_step", run.rows},
               {"cache_tokens", run.cache_tokens},
               {"memory_bytes", estimate.limits.plan.needed()},
               {"devices", estimate.devices},
               {"tokens_per_second", {{"in", estimate.rates.prompt}, {"out", estimate.rates.text}}},
               {"prompt_seconds", estimate.prompt_seconds()},
               {"most_text_seconds", estimate.text_seconds()},
               {"most_seconds", estimate.seconds()},
               {"most_gpu_hours", estimate.gpu_hours()}};
  add_cache_types(estimate.limits.plan.cache_types, json);
  return json;
}

}  // namespace skald
