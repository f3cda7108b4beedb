// How an executor will use a GPU's memory. No CUDA is called: the GPU is described by a DeviceInfo,
// of one that is there or of any other.
#pragma once

#include "cuda/cuda.h"
#include "cuda/plan/sizes.h"
#include "cuda/plan/step_plan.h"

namespace skald::cuda {

// The compute capability that kernels are chosen for: the GPU's own, or a lower limit.
int used_capability(const DeviceInfo& gpu, const RunOptions& options);

SizeOptions size_options(const FusedProgram& fused, const RunOptions& options,
                         const DeviceInfo& gpu);

MemoryPlan plan_memory(const FusedProgram& fused, const RunOptions& options,
                       const ModelConfig& model, const DeviceInfo& gpu);

// The plan keeps 16-bit copies of quantized matrices.
bool has_copies(const MemoryPlan& plan);

// What a GPU's executor would plan its steps with, with bounds as usual weights have them.
struct PlannedStep {
  Sizes sizes;
  PlanSetting setting;
};
PlannedStep planned_step(const FusedProgram& fused, const RunOptions& options,
                         const MemoryPlan& memory, const DeviceInfo& gpu);

}  // namespace skald::cuda
