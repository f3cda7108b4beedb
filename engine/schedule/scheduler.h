// Runs many texts on one executor, as many at a time as its cache holds: each step mixes one row of
// every text that is being written with parts of prompts that are being read
// (engine/schedule/step_choice.h). Texts begin in the order in which they were added, as they fit
// (engine/schedule/admission.h). Where the cache runs dry the youngest text gives its pages back
// and is computed again later: its tokens stay the same, since nothing that a text gets depends on
// its neighbours. A prompt that begins like another one waits for its pages instead of computing
// them too (engine/memory/prefix_index.h). Borrows the executor, which must outlive it. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/memory/prefix_index.h"
#include "engine/schedule/admission.h"
#include "engine/schedule/generation.h"
#include "engine/schedule/scheduled_text.h"
#include "engine/schedule/step_picks.h"
#include "engine/step/backend.h"

namespace skald {

struct SchedulerLimits {
  int64_t sequences = 1;  // at a time
  int64_t rows = 0;       // of a step; 0: the executor's
};

struct SchedulerCounts {
  int64_t steps = 0;
  int64_t computed_tokens = 0;  // rows of all steps
  int64_t shared_tokens = 0;    // that another text had computed
  int64_t new_tokens = 0;       // picked
  int64_t preemptions = 0;      // texts that gave their pages back
  int64_t lowered = 0;          // times that the device's memory ran out
  double busy_seconds = 0;      // in the executor
  double device_seconds = 0;    // Executor::device_seconds(); the scheduler leaves it at 0
};

class Scheduler {
 public:
  Scheduler(Executor& executor, SchedulerLimits limits);

  // The prompt must fit the executor's context. The generation must live until its ends were told.
  void add(Generation& generation);

  bool idle() const { return running_.empty() && waiting() == 0; }
  int64_t waiting() const { return admission_.size() + static_cast<int64_t>(done_.size()); }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  const SchedulerLimits& limits() const { return limits_; }
  const SchedulerCounts& counts() const { return counts_; }

  // One step. What it says is valid until the next call. An Error is the executor's and about no
  // text in particular; the texts are then as they were.
  std::span<GenerationEvent> step();

 private:
  void drop_cancelled();
  void make_room();
  bool make_room(const ScheduledText& text, int64_t pages);
  void preempt(ScheduledText& text);
  bool run();
  std::span<StepPick> pick();
  void lower_load(const std::string& problem);
  void remember_prefixes();
  void deliver(StepPick& pick);
  void deliver_next(ScheduledText& text, Picked picked);
  void end(ScheduledText& text, Ending ending, std::string problem = "");
  void remove_ended();

  Executor& executor_;
  SchedulerLimits limits_;
  PrefixIndex prefixes_;
  Admission admission_;
  StepPicks picks_;
  SchedulerCounts counts_;
  int64_t added_ = 0;
  ScheduledTexts running_;  // by age
  ScheduledTexts done_;     // that need no step, and whose end is to be told

  // Of the step; kept for their memory.
  std::vector<StepPicks::Rows> parts_;
  std::vector<SeqRows> rows_;
  std::vector<GenerationEvent> events_;
};

}  // namespace skald
