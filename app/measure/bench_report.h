// What skald bench found, and how it is shown: to people as a table, to programs as JSON or CSV.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/files/json.h"
#include "app/terminal/table.h"

namespace skald {

// One line of the result: `tokens` as a prompt, or one after the other, after `depth` others. In
// each of several `sequences` at once, where a prompt has one. `scored`: prompts, as many of them
// as fill a step or more, every token of which is scored, as perplexity does.
struct BenchCase {
  bool prompt;
  int64_t tokens, depth, sequences = 1;
  bool scored = false;

  std::string name() const;  // "pp512", "tg128 @ d1000", "tg128 b32 @ d1000", "sc512"
  double all_tokens() const { return static_cast<double>(tokens * sequences); }
};

struct BenchResult {
  BenchCase test;
  std::vector<double> seconds;  // of each repetition
  double bytes = 0;             // weights and cache that a decode repetition reads; 0 for prompts
  double flops = 0;             // of a prompt repetition's products with weights; 0 for decode

  double mean_seconds() const;
  double mean_rate() const;       // tokens per second, over all sequences
  double rate_deviation() const;  // of the sample; 0 for a single repetition
};

struct BenchReport {
  std::string model;
  int64_t bytes = 0, parameters = 0;
  std::string device;
  int threads = 0;          // of the CPU; 0 on a GPU
  double load_seconds = 0;  // from the open model to the first step: uploads and allocations
  double bandwidth = 0;     // bytes per second that the same threads, or the GPU, read from memory
  std::vector<BenchResult> results;
};

Table to_table(const BenchReport& report);
Table to_csv_table(const BenchReport& report);  // plain numbers in base units, named as in JSON
Json to_json(const BenchReport& report);

}  // namespace skald
