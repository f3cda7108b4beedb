// What `skald run` can say about itself: one line for people, one JSON object for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/generate/generate.h"

namespace skald {

struct RunReport {
  std::string model, device;  // "model.gguf", "cpu (AVX3_DL, 2 threads)"
  std::string prompt, text;   // the prompt as the model got it
  uint64_t seed = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of them, those that a prompt cache brought
  std::vector<Picked> picked;
  bool logprobs = false;
  Generated generated;

  double load_seconds = 0, first_seconds = 0;  // from the command's start; to its first token
  int64_t bytes_per_token = 0;                 // weights and cache that a token reads
  int64_t memory_bytes = 0;                    // by the plan
  double bandwidth = 0;                        // bytes per second; 0: not measured

  double bytes_per_second() const;
};

std::string stats_line(const RunReport& report);
// One line, with its end. Nothing in it can take over a terminal.
std::string json_text(const RunReport& report, const Tokenizer& tokenizer);

}  // namespace skald
