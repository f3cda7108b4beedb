// The rows of one step as a backend wants them: flat lists, checked, with room made in the
// sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/step/backend.h"

namespace skald {

struct StepLimits {
  int64_t rows, context, vocab;
};

// Whether a token more of each has room.
bool have_room(std::span<Sequence* const> sequences, const PagePool& pool, int64_t context);

class StepRows {
 public:
  explicit StepRows(const StepLimits& limits);

  // Extends the step's sequences, calling copy_page for a page that stops being shared. On an Error
  // no sequence has changed.
  void admit(Step step, const std::function<void(Sequence::PageCopy)>& copy_page);

  int64_t count() const { return static_cast<int64_t>(tokens.size()); }

  std::vector<int32_t> tokens;     // [count]
  std::vector<int64_t> positions;  // [count] in their sequences
  std::vector<int32_t> sequences;  // [count] index into the step
  std::vector<int32_t> wanted;     // rows whose logits were asked for, in order
  bool one_row_each = false;       // every sequence has a single row, and it is wanted

 private:
  void check_step(Step step) const;

  StepLimits limits_;
};

}  // namespace skald
