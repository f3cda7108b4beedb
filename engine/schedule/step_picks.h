// The tokens of a step's wanted rows: of texts that are being written the next one, of prompts that
// are scored the one that is there. A row that fails spoils no other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/schedule/scheduled_text.h"
#include "engine/step/backend.h"

namespace skald {

struct StepPick {
  ScheduledText* text;
  bool of_prompt;  // the token was known, and is token text->scored + 1
  Picked picked;
  std::string problem;  // why there is none
};

class StepPicks {
 public:
  // The rows of the step that was run, in its order, before its sequence was extended by them.
  struct Rows {
    ScheduledText* text;
    int64_t first, count;  // positions
    Want want;
  };

  // Valid until the next call. Throws Error(Exit::Memory) alone, and can be called again then.
  std::span<StepPick> pick(Executor& executor, std::span<const Rows> step);

 private:
  void add(const Rows& rows);
  void add_known(ScheduledText& text, int64_t position);
  void add_next(ScheduledText& text);
  void pick_one_by_one(Executor& executor);

  Sampler sampler_;
  std::vector<SamplingParams> known_;  // settings that force a token, reused from step to step
  size_t known_count_ = 0;
  std::vector<PickRequest> requests_;
  std::vector<StepPick> picks_;
};

}  // namespace skald
