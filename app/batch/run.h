// The threads of a batch: some read and prepare lines, one for each device runs the model, one
// turns what comes out into lines and writes them. Bounded queues lie between them, so that a
// device waits for nobody and nothing grows with the input. The first error of any thread ends all.
#pragma once

#include <span>

#include "app/batch/input.h"
#include "app/batch/prepare.h"
#include "app/batch/progress.h"
#include "app/batch/result.h"
#include "app/files/jsonl_writer.h"
#include "engine/schedule/scheduler.h"
#include "engine/step/backend.h"

namespace skald {

struct BatchRun {
  BatchInput& input;
  JsonlReader& reader;  // of the input
  BatchPreparer& preparer;
  JsonlWriter& writer;
  BatchResultOptions result;
  BatchCounts& counts;
  BatchProgress& progress;
  SchedulerLimits limits;  // of each device
  int prepare_threads = 1;
};

// One executor a device. Returns what they did together once all lines have a result, or once the
// program was interrupted: then running lines are dropped. Does not finish the writer.
SchedulerCounts run_batch(const BatchRun& run, std::span<const std::unique_ptr<Executor>> devices);

}  // namespace skald
