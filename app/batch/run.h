// The threads of a batch: some read and prepare lines, one for each device runs the model, and one
// turns what the model gives into results and writes them. Bounded queues lie between the threads,
// so that a device waits for no other thread, and memory does not grow with the input. The first
// error of a thread ends all of them.
#pragma once

#include <span>
#include <vector>

#include "app/batch/prepare.h"
#include "app/batch/result.h"
#include "app/jobs/run.h"
#include "engine/schedule/scheduler.h"
#include "engine/step/backend.h"

namespace skald {

struct BatchRun {
  JobRun& job;  // begin() was called
  BatchPreparer& preparer;
  BatchResultOptions result;
  SchedulerLimits limits;  // of each device, but for guesses
  int prepare_threads = 1;
  std::vector<GuessPlan> guesses = {};  // of each device; empty: nothing is guessed
};

// One executor for each device. Returns the sums over the devices when all lines have a result, or
// when the program is interrupted: lines that are being computed then get no result. Does not
// finish the writer.
SchedulerCounts run_batch(const BatchRun& run, std::span<const std::unique_ptr<Executor>> devices);

}  // namespace skald
