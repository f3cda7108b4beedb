// One sample of a Generation on its way through a Scheduler: the tokens that it has, and how many
// of them are in the cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/schedule/generation.h"
#include "engine/step/backend.h"

namespace skald {

struct ScheduledText {
  Generation* generation;
  int sample;
  int64_t age;                   // its place among all texts: the oldest has the least
  std::vector<int32_t> tokens;   // of the prompt, and picked
  std::vector<uint64_t> hashes;  // of the prompt's whole pages
  Sequence sequence;             // holds a prefix of tokens
  int64_t scored = 0;            // tokens whose log-probabilities were told, the first aside
  int passed = 0;                // younger texts that were admitted before it
  bool ended = false;

  int64_t prompt_length() const { return static_cast<int64_t>(generation->prompt.size()); }
  int64_t length() const { return static_cast<int64_t>(tokens.size()); }

  // So many tokens are computed: all, but the last where no token is to follow it.
  int64_t goal() const { return length() - (generation->max_tokens == 0 ? 1 : 0); }
  int64_t pending() const { return goal() - sequence.length(); }
  bool reading() const { return pending() > 1; }  // else it takes one row a step
  bool unscored() const {
    return generation->score_prompt && sample == 0 && scored < prompt_length() - 1;
  }

  bool cancelled() const {
    return generation->cancelled && generation->cancelled[sample].load(std::memory_order_relaxed);
  }

  // Pages that it still takes for what it has, and for one more token where it has room.
  int64_t missing_pages(int64_t context) const {
    const int64_t whole = sequence.length() / kPageTokens;  // one begun may have to be copied
    return std::max<int64_t>(pages_for(std::min(length() + 1, context)) - whole, 0);
  }
};

using ScheduledTexts = std::vector<std::unique_ptr<ScheduledText>>;

}  // namespace skald
