// Guesses for a sample whose tokens a filter restricts (a grammar): the filter cuts what it does
// not allow, and what it forces is guessed too. Each row of the step then has a mask of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/schedule/generation.h"

namespace skald {

struct AllowedGuesses {
  std::vector<int32_t> tokens;
  // The tokens that may follow each of them, as SampleContext::allowed has them.
  std::vector<std::vector<uint64_t>> masks;
  bool wrong = false;  // the filter forbids the guess after those that are kept
};

// At most as many tokens as there are guesses. `forces`: the scheduler appends forced tokens
// without asking the model, so they take the place of guesses. None, if the filter cannot be
// copied.
AllowedGuesses allowed_guesses(const TokenFilter& filter, std::span<const int32_t> guesses,
                               bool forces);

}  // namespace skald
