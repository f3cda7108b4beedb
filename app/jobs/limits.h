// How many sequences a run over lines computes at a time, and the size of the cache that they
// share: what the user says, else what fits into the memory.
#pragma once

#include "app/model/device.h"
#include "engine/step/backend.h"

namespace skald {

struct JobLimits {
  RunOptions run;   // context, rows, sequences and cache_tokens are set
  MemoryPlan plan;  // the plan by which `run` was chosen
};

// sequences: 0 for the device's default. Throws Error(Exit::Memory) where not one sequence fits.
JobLimits choose_job_limits(const Model& model, const RunOptions& asked, int sequences,
                            const Device& device);

}  // namespace skald
