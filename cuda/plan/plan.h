// How an executor will use a GPU's memory. Calls no CUDA: a DeviceInfo describes the GPU, which
// need not be in this machine.
#pragma once

#include "cuda/cuda.h"
#include "cuda/plan/sizes.h"
#include "cuda/plan/step_plan.h"

namespace skald::cuda {

// The compute capability that kernels are chosen for: the GPU's own, or a lower one from the
// options.
int used_capability(const DeviceInfo& gpu, const RunOptions& options);

SizeOptions size_options(const FusedProgram& fused, const RunOptions& options,
                         const DeviceInfo& gpu);

MemoryPlan plan_memory(const FusedProgram& fused, const RunOptions& options,
                       const ModelConfig& model, const DeviceInfo& gpu);

// True if the plan keeps 16-bit copies of quantized matrices.
bool has_copies(const MemoryPlan& plan);

// Bytes of weights and slots in the GPU's memory.
int64_t weight_room(const MemoryPlan& plan);
// With this, place_weights() repeats the plan's placement.
PlaceRequest planned_place(const FusedProgram& fused, const MemoryPlan& plan,
                           const RunOptions& options, const ModelConfig& model);

// The setting of an executor's step plans, with assumed_bounds(), because no weights are read.
struct PlannedStep {
  Sizes sizes;
  PlanSetting setting;
};
PlannedStep planned_step(const FusedProgram& fused, const RunOptions& options,
                         const ModelConfig& model, const MemoryPlan& memory, const DeviceInfo& gpu);

}  // namespace skald::cuda
