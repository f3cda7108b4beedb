// The result of `skald run`: as one line for people (--stats) and one JSON object (--json).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/generate/generate.h"
#include "app/generate/guessing.h"
#include "engine/step/backend.h"

namespace skald {

// The same text, written again without guesses.
struct GuessCheck {
  double tokens_per_second = 0;
  bool same_text = true;
};

struct RunReport {
  std::string model, device;  // "model.gguf", "cpu (AVX3_DL, 2 threads)"
  std::string prompt, text;   // the prompt with its chat template; the generated text
  std::string reasoning;      // in channels: the thinking, which `text` then does not have
  std::vector<ToolCall> calls;
  uint64_t seed = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // prompt tokens that came from --prompt-cache
  std::vector<Picked> picked;
  bool logprobs = false;
  Generated generated;

  double load_seconds = 0;        // from the command's start to the loaded model
  double first_seconds = 0;       // from the command's start to the first token
  int64_t bytes_per_token = 0;    // weights and KV cache read for one token
  int64_t memory_bytes = 0;       // needed, by the memory plan
  double most_tokens = 0;         // MemoryPlan::most_tokens()
  double most_prompt_tokens = 0;  // MemoryPlan::most_prompt_tokens() of the computed tokens
  ExpertUse experts;
  GuessCounts guesses;
  std::optional<LoadedDraft> draft;  // the draft model, if there is one
  std::optional<GuessCheck> check;   // --spec-check
  double bandwidth = 0;              // read bandwidth in bytes per second; 0: not measured

  double bytes_per_second() const;
};

std::string stats_line(const RunReport& report);
std::string check_line(const RunReport& report);  // of --spec-check
// One line with its newline. Control characters are escaped, so that a terminal ignores them.
std::string json_text(const RunReport& report, const Tokenizer& tokenizer);

}  // namespace skald
