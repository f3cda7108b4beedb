// Picks a token from each row of a step's logits: the next token of a sample, or the known next
// token of a prompt that reports log-probabilities. A row that fails does not affect the others.
// Rows of samples that pool hidden rows (step_pools.h) are passed over; they are the step's last.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/schedule/scheduled_sample.h"
#include "engine/step/backend.h"

namespace skald {

struct StepPick {
  ScheduledSample* sample;
  bool of_prompt;  // true: the token is prompt token sample->scored + 1
  Picked picked;
  std::string problem;  // why no token was picked; empty: none
  // The tokens before this one, if guesses are the last of them; 0: there is no guess before.
  int64_t guessed_length = 0;
  bool known = false;  // the text has this token: it is computed again

  // False: a guess before was wrong, or the text has the token. To be asked once the picks before
  // were delivered.
  bool follows() const;
};

class StepPicks {
 public:
  // The rows of the last step, in its order. `first` is the sequence's length before the step.
  struct Rows {
    ScheduledSample* sample;
    int64_t first, count;  // positions
    Want want;
    int64_t guesses = 0;  // the last rows are guesses (engine/schedule/step_guesses.h)

    std::span<const int32_t> tokens() const;

    int64_t wanted() const {
      return want == Want::EveryRow ? count : want == Want::LastRow ? 1 : 0;
    }
  };

  // The result is valid until the next call. Throws only Error(Exit::Memory), and may then be
  // called again.
  std::span<StepPick> pick(Executor& executor, std::span<const Rows> step);

 private:
  void add(const Rows& rows);
  void add_scored(ScheduledSample& sample, int64_t position);
  void add_guessed(const Rows& rows);
  void add_next(ScheduledSample& sample);
  void pick_one_by_one(Executor& executor);

  Sampler sampler_;
  SamplingParams greedy_ = {.temperature = 0};  // of picks that nobody needs
  std::vector<SamplingParams> forced_;  // settings that force one token; kept to reuse their memory
  size_t forced_count_ = 0;
  std::vector<PickRequest> requests_;
  std::vector<StepPick> picks_;
};

}  // namespace skald
