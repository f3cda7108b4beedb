// Runs many samples on one executor, as many at a time as the KV cache holds. Each step mixes one
// row of every sample in decode with parts of prompts in prefill (engine/schedule/step_choice.h).
// Samples start in order of arrival, as room permits (engine/schedule/admission.h).
//
// If the cache is full, the youngest sample is preempted: its pages are freed. They wait in the
// host's memory (engine/schedule/swap_space.h), or their tokens are computed again later, whichever
// took less time so far. Preemption changes no token, because a sample's result does not depend on
// the other samples. A prompt that shares a prefix with a running prompt waits for that prompt's
// pages instead of computing them too (engine/memory/prefix_index.h). A prompt whose vector is the
// mean of all hidden rows computes all of them, and waits for none.
//
// Borrows the executor, which must outlive the scheduler. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/memory/prefix_index.h"
#include "engine/schedule/admission.h"
#include "engine/schedule/generation.h"
#include "engine/schedule/scheduled_sample.h"
#include "engine/schedule/step_guesses.h"
#include "engine/schedule/step_picks.h"
#include "engine/schedule/swap_space.h"
#include "engine/step/backend.h"

namespace skald {

struct SchedulerLimits {
  int64_t sequences = 1;   // samples that run at the same time
  int64_t rows = 0;        // rows of a step; 0: the executor's max_rows()
  SwapLimits swap = {};    // the host's memory for preempted samples
  GuessPlan guesses = {};  // engine/speculate
};

struct SchedulerCounts {
  int64_t steps = 0;
  int64_t computed_tokens = 0;  // rows of all steps
  int64_t shared_tokens = 0;    // tokens whose pages another sample had computed
  int64_t new_tokens = 0;       // picked and forced tokens
  int64_t preemptions = 0;      // samples whose pages were freed for older ones
  int64_t swapped = 0;          // of these: samples whose pages went to the host's memory
  int64_t swapped_tokens = 0;   // that came back from there
  int64_t lowered = 0;          // how often the device ran out of memory and the load was reduced
  SharedGuessCounts guesses;
  double busy_seconds = 0;    // time spent in the executor and a draft model
  double device_seconds = 0;  // Executor::device_seconds(); filled in by the caller
};

class Scheduler {
 public:
  Scheduler(Executor& executor, SchedulerLimits limits, SecondsClock clock = steady_seconds);

  // The prompt must fit the executor's context. The generation must live until the End events of
  // all its samples have been processed.
  void add(Generation& generation);

  bool idle() const { return running_.empty() && waiting() == 0; }
  int64_t waiting() const { return admission_.size() + static_cast<int64_t>(finished_.size()); }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  const SchedulerLimits& limits() const { return limits_; }
  const SchedulerCounts& counts() const { return counts_; }
  const SwapSpace& swap_space() const { return swap_; }

  // Runs one step and returns its events, which are valid until the next call. An Error concerns
  // the executor, not a sample; the samples are then unchanged.
  std::span<GenerationEvent> step();

 private:
  void drop_cancelled();
  void make_room();
  bool make_room(const ScheduledSample& sample, int64_t pages);
  void preempt(ScheduledSample& sample);
  void swap_out(ScheduledSample& sample);
  int64_t pages_of_others(const ScheduledSample& sample) const;
  void bring_back(ScheduledSample& sample);
  void compute();
  bool run();
  std::optional<std::span<StepPick>> pick();
  void add_guesses();
  void show_rows();
  void out_of_memory(const std::string& problem);
  void take_back_step();
  void lower_load(const std::string& problem);
  void remember_prefixes();
  void remember(const ScheduledSample& sample, int64_t from);
  void deliver(StepPick& pick);
  void deliver_next(ScheduledSample& sample, Picked picked);
  bool take(ScheduledSample& sample, Picked picked);
  void end_prompt(ScheduledSample& sample);
  void end(ScheduledSample& sample, Ending ending, std::string problem = "");
  void remove_ended();

  Executor& executor_;
  SchedulerLimits limits_;
  SecondsClock clock_;
  SwapSpace swap_;
  PrefixIndex prefixes_;
  Admission admission_;
  StepPicks picks_;
  std::optional<StepGuesses> guesses_;
  SchedulerCounts counts_;
  int64_t added_ = 0;
  ScheduledSamples running_;   // by age
  ScheduledSamples finished_;  // need no step; their End event is due

  // Buffers of one step; members only to reuse their memory.
  std::vector<StepPicks::Rows> parts_;
  std::vector<SeqRows> rows_;
  std::vector<GenerationEvent> events_;
};

}  // namespace skald
