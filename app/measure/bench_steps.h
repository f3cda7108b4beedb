// The steps that skald bench measures. Each function is false when interrupted before its end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/perplexity/windows.h"
#include "engine/step/backend.h"

namespace skald {

std::vector<int32_t> random_tokens(const Executor& executor, int64_t count, uint64_t index);

struct BenchSequence {
  Sequence sequence;
  std::vector<int32_t> tokens;  // that it may come to hold

  BenchSequence(Executor& executor, int64_t count, uint64_t index)
      : sequence(executor.new_sequence()), tokens(random_tokens(executor, count, index)) {}

  std::span<const int32_t> part(int64_t first, int64_t count) const {
    return std::span(tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  }
};

// Appends tokens in steps of at most `rows`; the last row's logits are computed where wanted.
bool feed(Executor& executor, Sequence& sequence, std::span<const int32_t> tokens, int64_t rows,
          bool want_last);

// A token more of every sequence in each of so many steps, as texts are written: each step's tokens
// are picked from the logits of the one before, the best ones. With routed experts, which tokens
// choose, the sequences' own tokens are picked, by settings that make them sure: texts of random
// weights would become alike and go to few experts.
bool decode(Executor& executor, std::span<BenchSequence> sequences, int64_t steps);

// Whole texts, in as few steps as they fit into.
bool score(Executor& executor, std::span<const TokenWindow> windows);

}  // namespace skald
