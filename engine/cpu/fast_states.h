// The ops with a recurrent state, for one thread: a part of the columns, or one head, of adjacent
// rows of one sequence.
#pragma once

#include <cstdint>

#include "engine/cpu/kernels.h"

namespace skald::cpu {

// Rows [first, first + count) of a call. They belong to one sequence, so they share a state.
struct StateRun {
  int64_t first, count;
};

// The floats that delta_net() needs as a workspace for each thread.
inline int64_t delta_scratch_floats(const DeltaSpec& spec) { return 2 * int64_t{spec.key_dim}; }

struct StateKernels {
  // Columns [from, from + count).
  void (*causal_conv)(const CausalConvArgs& args, StateRun run, int64_t from, int64_t count);
  void (*delta_net)(const DeltaNetArgs& args, StateRun run, int value_head, float* scratch);
  void (*state_space)(const StateSpaceArgs& args, StateRun run, int head);
};

const StateKernels& state_kernels();

}  // namespace skald::cpu
