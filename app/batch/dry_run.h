// skald batch --dry-run: reads and prepares every line as a run would, and estimates its time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/batch/prepare.h"
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
BatchRates measure_rates(Executor& executor, int64_t sequences, int64_t prompt_length);

std::string census_text(const BatchCensus& census, const JobLimits& limits, const BatchRates& rates,
                        size_t devices);

}  // namespace skald
