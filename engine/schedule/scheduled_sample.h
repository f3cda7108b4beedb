// The state of one sample of a Generation inside a Scheduler: its tokens, and how many of them are
// in the KV cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/schedule/generation.h"
#include "engine/schedule/swap_space.h"
#include "engine/step/backend.h"

namespace skald {

struct GuessedSample;  // engine/schedule/step_guesses.h

struct ScheduledSample {
  Generation* generation;
  int index;                     // index among the generation's samples
  int64_t age;                   // order of arrival among all samples; the oldest has the smallest
  std::vector<int32_t> tokens;   // the prompt's tokens, then the picked ones
  std::vector<uint64_t> hashes;  // page_hashes() of the prompt
  Sequence sequence;             // cache of a prefix of `tokens`
  // Prompt tokens reported as PromptToken events, or whose hidden rows are in the sum of
  // Pooling::Mean.
  int64_t scored = 0;
  std::vector<double> pooled = {};  // [dim], of the hidden rows so far
  int passed = 0;                   // younger samples that overtook this one in the queue
  bool ended = false;
  // After a preemption: cache in the host's memory, until the sequence has been continued with it.
  std::unique_ptr<SwappedCache> swapped = nullptr;
  std::shared_ptr<GuessedSample> guesses = nullptr;  // once guesses were looked for

  int64_t prompt_length() const { return static_cast<int64_t>(generation->prompt.size()); }
  int64_t length() const { return static_cast<int64_t>(tokens.size()); }

  // The number of tokens to compute: all, or all but the last if nothing follows from it.
  int64_t goal() const {
    if (generation->pooling == Pooling::First) return 1;
    return length() - (generation->max_tokens == 0 && !pools() ? 1 : 0);
  }
  bool pools() const { return generation->pooling != Pooling::None; }
  int64_t pending() const { return goal() - sequence.length(); }
  bool in_prefill() const { return pending() > 1; }  // false: in decode, one row a step
  bool unscored() const {
    if (generation->pooling == Pooling::Mean) return scored < prompt_length();
    return generation->score_prompt && index == 0 && scored < prompt_length() - 1;
  }

  bool cancelled() const {
    return generation->cancelled && generation->cancelled[index].load(std::memory_order_relaxed);
  }

  // Pages still needed for the present tokens and, if the context allows, one more token.
  int64_t missing_pages(int64_t context) const {
    const int64_t whole = sequence.length() / kPageTokens;  // a page in use may have to be copied
    return std::max<int64_t>(pages_for(std::min(length() + 1, context)) - whole, 0);
  }
};

using ScheduledSamples = std::vector<std::unique_ptr<ScheduledSample>>;

}  // namespace skald
