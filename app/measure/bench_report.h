// The results of skald bench, and how they are printed: as a table, JSON or CSV.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/files/json_fwd.h"
#include "app/terminal/table.h"
#include "engine/step/backend.h"

namespace skald {

// One test, which is one row of the result.
struct BenchCase {
  bool prompt;            // a prompt of `tokens` (pp); else decode of `tokens` steps (tg)
  int64_t tokens;         // per sequence
  int64_t depth;          // tokens in the cache before the test
  int64_t sequences = 1;  // decoded in each step, or texts scored; a prompt has one
  bool scored = false;    // with `prompt`: texts whose every token is scored (sc)
  double accepted = -1;   // decode with guesses, which are right with this probability; < 0: none

  std::string name() const;  // "pp512", "tg128 @ d1000", "tg128 b32 @ d1000", "tg128 a0.7", "sc512"
  bool guesses() const { return accepted >= 0; }
  double all_tokens() const { return static_cast<double>(tokens * sequences); }
};

struct BenchResult {
  BenchCase test;
  std::vector<double> seconds;  // of each repetition
  double bytes = 0;             // weights, cache and states that decode reads; 0 for prompts
  double flops = 0;             // a prompt repetition's products with weights; 0 for decode

  double mean_seconds() const;
  double mean_rate() const;       // tokens per second, over all sequences
  double rate_deviation() const;  // the sample's standard deviation; 0 for one repetition
};

struct BenchReport {
  std::string model;
  int64_t bytes = 0, parameters = 0;
  std::string device;
  CacheTypes cache_types;
  bool shows_cache =
      false;                // the table has a column with the cache's types, as the user chose them
  int threads = 0;          // CPU threads; 0 on a GPU
  double load_seconds = 0;  // making the executor: uploads and allocations
  double bandwidth = 0;     // bytes per second that the same threads, or the GPU, read from memory
  ExpertUse experts;        // of all tests
  std::vector<BenchResult> results;
};

Table to_table(const BenchReport& report);
Table to_csv_table(const BenchReport& report);  // numbers in base units, columns named as in JSON
Json to_json(const BenchReport& report);

}  // namespace skald
