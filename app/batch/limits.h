// How many texts a batch computes at a time, and how large the cache is that they share: what the
// user says, and for the rest what the memory plan gives.
#pragma once

#include "app/model/device.h"
#include "engine/step/backend.h"

namespace skald {

struct BatchLimits {
  RunOptions run;   // context, rows, sequences and cache_tokens are set
  MemoryPlan plan;  // by which they were chosen
};

// sequences: 0 for the device's default. Throws Error(Exit::Memory) where not one text fits.
BatchLimits choose_batch_limits(const Model& model, const RunOptions& asked, int sequences,
                                const Device& device);

}  // namespace skald
