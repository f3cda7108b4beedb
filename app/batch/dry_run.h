// skald batch --dry-run: reads and prepares every line as a run would, and estimates its time,
// memory and GPU hours.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/batch/prepare.h"
#include "app/files/json_fwd.h"
#include "app/jobs/input.h"
#include "app/jobs/limits.h"
#include "engine/step/backend.h"

namespace skald {

struct BatchCensus {
  int64_t lines = 0, bad = 0, skipped = 0, texts = 0;  // texts: samples of all prompts together
  int64_t prompt_tokens = 0, shortest = 0, longest = 0;
  int64_t most_new_tokens = 0;
};

// Prints the first problems to stderr.
BatchCensus take_census(JobInput& input, BatchPreparer& preparer, int64_t context);

// Tokens per second of one executor, measured in a few steps of each kind.
struct BatchRates {
  double prompt = 0, text = 0;
};
// So many sequences that are half-way through the texts of the census.
BatchRates measure_rates(Executor& executor, int64_t sequences, const BatchCensus& census);

struct BatchEstimate {
  BatchCensus census;
  JobLimits limits;
  BatchRates rates;
  size_t devices = 1;
  size_t gpus = 0;  // of all devices together

  double prompt_seconds() const;
  double text_seconds() const;  // at most, as texts may end early
  double seconds() const { return prompt_seconds() + text_seconds(); }
  double gpu_hours() const { return seconds() / 3600 * static_cast<double>(gpus); }
};

std::string to_text(const BatchEstimate& estimate);
Json to_json(const BatchEstimate& estimate);

}  // namespace skald
