// The steps that skald bench measures. feed(), decode() and score() return false on Ctrl-C.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/perplexity/windows.h"
#include "engine/speculate/guess_control.h"
#include "engine/step/backend.h"

namespace skald {

std::vector<int32_t> random_tokens(const Executor& executor, int64_t count, uint64_t index);

struct BenchSequence {
  Sequence sequence;
  std::vector<int32_t> tokens;  // random ones, to fill the sequence with

  BenchSequence(Executor& executor, int64_t count, uint64_t index)
      : sequence(executor.new_sequence()), tokens(random_tokens(executor, count, index)) {}

  std::span<const int32_t> part(int64_t first, int64_t count) const {
    return std::span(tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  }
};

// Appends tokens in steps of at most `rows`. With `last_logits`, computes the last row's logits.
bool feed(Executor& executor, Sequence& sequence, std::span<const int32_t> tokens, int64_t rows,
          bool last_logits);

// Runs `steps` decode steps, each with one token of every sequence. The token is the best one by
// the logits of the step before. Models with experts are forced to pick the sequence's random
// tokens instead: greedy sequences would become alike and use only few experts.
bool decode(Executor& executor, std::span<BenchSequence> sequences, int64_t steps);

// Makes at least `tokens` tokens for each sequence, like decode(), but with guesses as `control`
// chooses them. Every sequence has the same number of right guesses in a step. As random weights
// would accept none, that number is drawn: each guess is right with the probability `accepted`, if
// all before it are. Returns the tokens made for each sequence; 0 on Ctrl-C.
struct GuessedDecode {
  GuessControl& control;
  double accepted;
  uint64_t seed;
};
int64_t decode_guessing(Executor& executor, std::span<BenchSequence> sequences, int64_t tokens,
                        const GuessedDecode& guessed);

// Scores whole texts in as few steps as possible.
bool score(Executor& executor, std::span<const TokenWindow> windows);

}  // namespace skald
