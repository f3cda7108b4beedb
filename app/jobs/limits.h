// How many sequences a run over lines computes at a time, the size of the cache that they share,
// and how much of the host's memory may hold the cache of preempted ones: what the user says, else
// what fits into the memory.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "app/model/device.h"
#include "engine/schedule/swap_space.h"
#include "engine/step/backend.h"

namespace skald {

struct JobLimits {
  RunOptions run;   // context, rows, sequences and cache_tokens are set
  MemoryPlan plan;  // the plan by which `run` was chosen
};

int64_t cache_bytes(const MemoryPlan& plan);

// The largest number of tokens from `least` to `most`, in whole pages, for which good() is true.
int64_t most_tokens(int64_t least, int64_t most, const std::function<bool(int64_t)>& good);

// sequences: 0 for the device's default. Throws Error(Exit::Memory) where not one sequence fits.
JobLimits choose_job_limits(const Model& model, const RunOptions& asked, int sequences,
                            const Device& device);

// The limits of each executor's scheduler, once all executors of this program are made on devices
// like `device`. Half of the memory that the host then has left stays free, also where other
// processes take theirs at the same time.
SwapLimits swap_limits(std::span<const std::unique_ptr<Executor>> executors, const Device& device);

}  // namespace skald
