// An executor that starts the next step together with each pick, as a GPU does. Another executor
// computes the steps. Results must be the same as with that executor alone.
#pragma once

#include "engine/step/step.h"
#include "tests/engine/wrapped_executor.h"

namespace skald::test {

class AheadExecutor final : public WrappedExecutor {
 public:
  using WrappedExecutor::WrappedExecutor;

  int64_t ahead = 0;     // steps that were started together with a pick
  bool refuses = false;  // starts no step with a pick, like a backend that has not prepared one

  int64_t run(Step step) override {
    ++steps_;
    return WrappedExecutor::run(step);
  }

  Picks pick_and_run(std::span<const PickRequest> requests,
                     std::span<Sequence* const> sequences) override {
    Picks picks{pick(requests)};
    if (refuses || !have_room(sequences, context())) return picks;
    std::vector<SeqRows> rows;
    for (size_t i = 0; i < sequences.size(); ++i) {
      rows.push_back({sequences[i], {&picks.picked[i].token, 1}, Want::LastRow});
    }
    run(rows);
    ++ahead;
    picks.step = steps_;
    return picks;
  }

  int64_t last_step() const override { return steps_; }

 private:
  int64_t steps_ = 0;
};

}  // namespace skald::test
