// The rows of one step as a backend reads them: flat, checked lists. Before a step is computed,
// extend() makes room for its tokens in their sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/step/backend.h"

namespace skald {

struct StepLimits {
  int64_t rows, context, vocab;  // vocab: Program::tokens()
  int64_t given_cols = 0;        // Program::given_cols()
};

// True if each sequence has room for one more token. All are of one pool.
bool have_room(std::span<Sequence* const> sequences, int64_t context);

// The pages and states that each sequence of a step no longer shares, and that a backend copies.
using Extension = std::vector<Sequence::Copies>;

// Extends the step's sequences by its tokens. After an Error every sequence is unchanged.
Extension extend(Step step);
// Takes the step's tokens back, whether a backend has computed them or not.
void take_back(Step step);

class StepRows {
 public:
  // The most rows of a sequence in a step that checks guesses: 16 guesses and the token before
  // them.
  static constexpr int64_t kFewRows = 17;

  explicit StepRows(const StepLimits& limits);

  void check_step(Step step) const;  // throws an Error
  void list(Step step);              // fills the lists; the step's sequences have been extended

  int64_t count() const { return static_cast<int64_t>(tokens.size()); }

  std::vector<int32_t> tokens;     // [count]
  std::vector<int64_t> positions;  // [count] position of the row in its sequence
  std::vector<int32_t> sequences;  // [count] index into the step
  std::vector<int32_t> wanted;     // rows that SeqRows::want selects, in order
  std::vector<float> given;        // [count, given_cols]
  bool one_row_each = false;       // every sequence has a single row, which is wanted
  // Every row is wanted, and a sequence has no more than kFewRows.
  bool few_rows_each = false;

 private:
  StepLimits limits_;
};

}  // namespace skald
