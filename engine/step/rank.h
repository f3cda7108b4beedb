// An executor that computes alone, or as one rank of a group (engine/step/group.h). In a group the
// ranks share sequences: page numbers and lengths are the same on all. The group extends the
// sequences once, and each rank then computes the step on its own cache. Hence a backend gives
// run() and pick_and_run() in parts.
#pragma once

#include <span>
#include <vector>

#include "engine/step/backend.h"
#include "engine/step/step.h"

namespace skald {

class RankExecutor : public Executor {
 public:
  int64_t run(Step step) final;
  Picks pick_and_run(std::span<const PickRequest> requests,
                     std::span<Sequence* const> sequences) final;

  // Throws an Error if the executor cannot run the step, whatever its memory.
  virtual void check_step(Step step) const = 0;
  // Computes a step whose sequences extend() has extended. Returns the number of wanted rows.
  virtual int64_t run_extended(Step step, const Extension& extension) = 0;

  // Call it after a rank has failed in logits(), pick(), score() or compare(). Drops the logits
  // that these have computed since the step: those of other ranks may be missing in them.
  virtual void drop_logits() = 0;

  // True if run_ahead() can begin the step after a pick of these requests.
  virtual bool can_run_ahead(std::span<const PickRequest>, std::span<Sequence* const>) {
    return false;
  }
  // Picks, and computes the next step with the picked tokens. `next` has one row of each sequence;
  // its tokens are ignored.
  virtual Picks run_ahead(std::span<const PickRequest> requests, Step next,
                          const Extension& extension);
};

// The step that follows a pick: one wanted row of each sequence, with a token that is not known.
std::vector<SeqRows> next_step(std::span<Sequence* const> sequences);

}  // namespace skald
