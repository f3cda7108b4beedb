// Prints a memory plan: as a table or JSON for `skald plan`, and as notes on stderr for the
// commands that run a model.
#pragma once

#include <string>
#include <vector>

#include "app/files/json_fwd.h"
#include "cuda/cuda.h"
#include "engine/memory/memory_plan.h"

namespace skald {

// A type of the same model that fits where the planned one does not.
struct FittingType {
  std::string type;
  int64_t weights = 0, needed = 0, most_context = 0;  // bytes, bytes, tokens
  int64_t host = 0;  // bytes of the weights that lie in the host's memory
};

// So many sequences: the largest context that fits, and MemoryPlan::most_tokens() of their decode.
struct BySequences {
  int sequences = 0;
  int64_t context = 0;
  double most_tokens = 0;
};

struct PlanReport {
  std::string model, device;
  int64_t parameters = 0, rows = 0;
  MemoryPlan memory;
  bool shows_cache = false;  // the text has a line with the cache's types, as the user chose them
  bool cpu_helps = false;    // in decode the CPU will compute too, at a speed that is not known yet
  std::vector<BySequences> by_sequences;
  std::vector<int> kernel_rows;          // row counts that `kernels` lists
  std::vector<cuda::KernelUse> kernels;  // with --kernels
  std::vector<cuda::EdgeUse> edges;      // with --kernels, of decode steps
  std::vector<FittingType> types;        // if the model does not fit; may be empty
  int fitting_ranks = 0;                 // if it does not fit: --tp N, with which it does; 0: none
};

// True if the plan fits, and the weights stay in the device's memory that no rule of the user
// moves.
bool fits_in_memory(const MemoryPlan& plan);

std::string to_text(const PlanReport& report);  // in lines of at most 80 columns, but for kernels
Json to_json(const PlanReport& report);

// A line for stderr if the context is smaller than the model's; else empty.
std::string context_note(const MemoryPlan& plan);
// Lines for stderr: a context smaller than the model's, weights that do not fit in memory, weights
// in the host's memory. Empty if nothing is so.
std::string plan_notes(const MemoryPlan& plan);

}  // namespace skald
