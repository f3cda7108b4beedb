// A step plan as text: launches and names of edges.
#pragma once

#include <string>
#include <string_view>

#include "cuda/plan/step_plan.h"

namespace skald::cuda {

std::string_view edge_name(EdgeKind kind);  // "prepared rows"

// One launch: "gemv_q_sm90".
std::string entry_text(const FusedProgram& fused, const StepEntry& entry);

// All launches of a fused op: "rms_norm + gemm_cublas + gate". Pieces of a product are separated by
// commas; neighbours with the same kernel are named once.
std::string launches_text(const FusedProgram& fused, const StepPlan& plan, size_t op);

}  // namespace skald::cuda
