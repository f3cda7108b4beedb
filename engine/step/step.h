// The rows of one step as a backend reads them: flat, checked lists. admit() fills them and extends
// the step's sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/step/backend.h"

namespace skald {

struct StepLimits {
  int64_t rows, context, vocab;
};

// True if each sequence has room for one more token.
bool have_room(std::span<Sequence* const> sequences, const PagePool& pool, int64_t context);

class StepRows {
 public:
  explicit StepRows(const StepLimits& limits);

  // Extends the step's sequences. Calls `copy` with the pages and states that a sequence no longer
  // shares. After an Error every sequence is unchanged.
  void admit(Step step, const std::function<void(const Sequence::Copies&)>& copy);

  int64_t count() const { return static_cast<int64_t>(tokens.size()); }

  std::vector<int32_t> tokens;     // [count]
  std::vector<int64_t> positions;  // [count] position of the row in its sequence
  std::vector<int32_t> sequences;  // [count] index into the step
  std::vector<int32_t> wanted;     // rows that SeqRows::want selects, in order
  bool one_row_each = false;       // every sequence has a single row, which is wanted

 private:
  void check_step(Step step) const;

  StepLimits limits_;
};

}  // namespace skald
