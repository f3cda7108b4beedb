// One line of a batch on its way from the input to its result. One thread at a time has it; while
// its texts are computed the engine reads what is a Generation's, and the writer keeps what comes
// out.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/batch/request.h"
#include "app/batch/sample_text.h"
#include "engine/schedule/generation.h"

namespace skald {

struct BatchJob;

// One prompt, and all samples of it.
struct BatchPrompt : Generation {
  BatchJob* job = nullptr;
  std::string text;              // as an echo shows it
  int64_t cut = 0;               // tokens that were taken from its left, since it was too long
  std::vector<Picked> scores;    // of its tokens, from the second on
  std::deque<SampleText> texts;  // one a sample
};

struct BatchJob {
  int64_t turn = 0;  // its place in the input, from 0
  int64_t line = 0;  // where it is, from 1
  std::string id;    // as JSON
  std::string request_hash;
  Json json;  // of the line, until it is read

  BatchRequest request;
  std::vector<int32_t> stop_ids;
  std::deque<BatchPrompt> prompts;
  int64_t open = 0;  // samples that have not ended
  std::optional<BatchProblem> problem;
  bool skipped = false;  // too long, and --on-overflow skip: no result is written

  int64_t prompt_tokens() const {
    int64_t tokens = 0;
    for (const BatchPrompt& prompt : prompts) tokens += static_cast<int64_t>(prompt.prompt.size());
    return tokens;
  }
  int64_t new_tokens() const {
    int64_t tokens = 0;
    for (const BatchPrompt& prompt : prompts) {
      for (const SampleText& text : prompt.texts) tokens += text.tokens();
    }
    return tokens;
  }
};

}  // namespace skald
