// Scores texts whose KV caches are in memory together. A context that several texts share is
// computed once.
#pragma once

#include <span>
#include <vector>

#include "app/score/line.h"
#include "engine/sampling/score.h"
#include "engine/step/backend.h"

namespace skald {

// A round: as many texts as fit. First add() each text, then run(). The cache holds all ids of a
// context but the last.
class ScoreRound {
 public:
  // most_texts: the executor's number of sequences.
  ScoreRound(Executor& executor, size_t most_texts)
      : executor_(executor), most_texts_(most_texts) {}

  // False where the text does not fit beside the others; the first text always fits. The round
  // keeps a pointer to the text until run().
  bool add(const ScoreText& text);

  bool empty() const { return texts_.empty(); }
  // Returns the scores of each text's continuation, and empties the round. NaN and infinity are an
  // Error.
  std::vector<std::vector<TokenScore>> run();

 private:
  std::span<const int32_t> shared(const ScoreText& text) const {
    return std::span(text.ids).first(static_cast<size_t>(text.context - 1));
  }

  Executor& executor_;
  size_t most_texts_;
  std::vector<const ScoreText*> texts_;
  std::vector<std::span<const int32_t>> contexts_;  // all different
  std::vector<size_t> context_of_;                  // by text, an index into contexts_
  int64_t pages_ = 0;
};

}  // namespace skald
