// Scores texts that are in memory together: a context that several have is computed once.
#pragma once

#include <span>
#include <vector>

#include "app/score/line.h"
#include "engine/sampling/score.h"
#include "engine/step/backend.h"

namespace skald {

// Texts that have their contexts (all ids but the last of the context) in the cache at the same
// time. add() as many as fit, then run().
class ScoreRound {
 public:
  // most_texts: as many sequences as the executor was made for.
  ScoreRound(Executor& executor, size_t most_texts)
      : executor_(executor), most_texts_(most_texts) {}

  // False when it does not fit beside the others; the first one always does. Borrowed until run().
  bool add(const ScoreText& text);

  bool empty() const { return texts_.empty(); }
  // Of each text its continuation's scores; the round is then empty. NaN and infinity are an Error.
  std::vector<std::vector<TokenScore>> run();

 private:
  std::span<const int32_t> shared(const ScoreText& text) const {
    return std::span(text.ids).first(static_cast<size_t>(text.context - 1));
  }

  Executor& executor_;
  size_t most_texts_;
  std::vector<const ScoreText*> texts_;
  std::vector<std::span<const int32_t>> contexts_;  // different ones
  std::vector<size_t> context_of_;                  // of each text
  int64_t pages_ = 0;
};

}  // namespace skald
