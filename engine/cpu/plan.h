// How the CPU backend will use the machine's memory: arithmetic on a Program.
#pragma once

#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/step/backend.h"

namespace skald::cpu {

// The bytes of a cache page, all layers in it, and where each layer begins.
struct PageLayout {
  PageLayout(const Program& program, bool exact);

  int64_t bytes = 0;
  std::vector<int64_t> offsets;
};

// Logits are computed this many rows at a time as they are asked for: rows x vocabulary in one
// piece would be gigabytes, while fewer rows would read the head's weights more often.
inline constexpr int64_t kLogitRows = 16;

// What a program's kernels must be made for.
KernelOptions kernel_options(const Program& program, const RunOptions& options);

MemoryPlan plan_memory(const Model& model, const Program& program, const RunOptions& options);

}  // namespace skald::cpu
