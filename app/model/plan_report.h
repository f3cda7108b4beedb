// A memory plan in words: a table or JSON for `skald plan`, and lines on stderr for commands that
// run by it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/files/json.h"
#include "cuda/cuda.h"
#include "engine/memory/memory_plan.h"

namespace skald {

struct PlanReport {
  std::string model, device;
  int64_t parameters = 0, rows = 0;
  MemoryPlan memory;
  std::vector<std::pair<int, int64_t>> by_sequences;  // and the largest context of each that fits
  std::vector<int> kernel_rows;
  std::vector<cuda::KernelUse> kernels;  // where they were asked for
};

std::string to_text(const PlanReport& report);
Json to_json(const PlanReport& report);

// What a user should know of a plan that is being followed, a line each; "" when all is as asked.
std::string plan_notes(const MemoryPlan& plan);

}  // namespace skald
