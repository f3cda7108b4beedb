// How the CPU backend will use the machine's memory, computed from a Program.
#pragma once

#include "engine/cpu/kernels.h"
#include "engine/step/backend.h"

namespace skald::cpu {

// The types of the KV cache: those of RunOptions::cache_types, else F32 for exact runs and F16 for
// others.
CacheTypes cache_types(const RunOptions& options);

// Logits are computed this many rows at a time, on demand. All rows x vocabulary at once could take
// gigabytes; fewer rows at a time would read the head's weights more often.
inline constexpr int64_t kLogitRows = 16;

// The sizes that a program's kernels must support.
KernelOptions kernel_options(const Program& program, const RunOptions& options);

// The states of all sequences and checkpoints; 0 if the program has none.
int64_t state_slots(const Program& program, const RunOptions& options);

MemoryPlan plan_memory(const Model& model, const Program& program, const RunOptions& options);

}  // namespace skald::cpu
