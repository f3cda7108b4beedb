// Computes fused ops on the CPU, with weights that lie in the host's memory (cuda/plan/host_op.h).
// A call brings the op's input from the GPU, waits for it, computes, and sends the result back.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/load/loaded_model.h"
#include "cuda/plan/host_op.h"
#include "cuda/run/weight_copies.h"
#include "engine/cpu/row_ops.h"

namespace skald::cuda {

class HostOps {
 public:
  // Borrows all but the numbers. acts: one for each buffer of the program. threads: 0 for one on
  // each core but one.
  HostOps(const FusedProgram& fused, const Placement& placement, const LoadedModel& loaded,
          const std::vector<DeviceMemory>& acts, int threads, Stream stream);

  bool any() const { return any_; }  // false: the CPU can compute none of the ops
  // Which ops the CPU can compute, and how fast it and the link are at the same time.
  HostShare measure(const Placement& placement, WeightCopies& copies);

  void run(size_t op, int rows);

 private:
  bool take_weights(size_t op, const FusedLinear& linear, const LoadedModel& loaded);
  bool take_weights(size_t op, const FusedExperts& experts, const LoadedModel& loaded);
  bool take(WeightId id, DType format, const std::byte* rows, int64_t stride);
  void compute(size_t op, int rows);
  int64_t row_bytes(ActId id) const { return fused_.row_bytes(id); }

  const FusedProgram& fused_;
  const std::vector<DeviceMemory>& acts_;
  Stream stream_;
  Program program_;  // with the weights where the CPU finds them
  std::vector<std::optional<HostOp>> ops_;
  bool any_ = false;
  std::unique_ptr<cpu::Kernels> kernels_;
  std::unique_ptr<cpu::RowOps> row_ops_;
  PinnedMemory in_, out_;
  EventOwner arrived_;
};

}  // namespace skald::cuda
