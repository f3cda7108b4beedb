// One line of a batch on its way from the input to its result. One thread at a time has the job.
// While its samples are computed, the scheduler reads the Generation part of each prompt, and the
// thread that writes results fills the rest.
#pragma once

#include <chrono>
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
  int64_t cut = 0;               // tokens that --on-overflow truncate-left dropped from its left
  std::vector<Picked> scores;    // scores of the prompt's tokens, from the second on
  std::deque<SampleText> texts;  // one for each sample
  std::vector<float> vector;     // if the request is an EmbedRequest
};

struct BatchJob : JobLine {
  BatchRequest request;
  std::vector<int32_t> stop_ids;
  std::deque<BatchPrompt> prompts;
  int64_t open = 0;      // samples that have not ended
  bool skipped = false;  // too long, and --on-overflow skip: no result is written
  std::chrono::steady_clock::time_point taken = {};  // when a device got it

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
