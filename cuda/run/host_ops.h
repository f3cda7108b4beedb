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
#include "engine/step/backend.h"

namespace skald::cuda {

class HostOps {
 public:
  struct Parts {
    const FusedProgram& fused;
    const Placement& placement;
    const LoadedModel& loaded;
    const std::vector<DeviceMemory>& acts;  // one for each buffer of the program
  };
  // Borrows all parts. threads: 0 for one on each core but one.
  HostOps(const Parts& parts, int threads, Stream stream);

  bool any() const { return any_; }  // false: the CPU can compute none of the ops
  // Which ops the CPU can compute, and how fast it and the link are at the same time.
  HostShare measure(WeightCopies& copies);

  void run(size_t op, int rows);

 private:
  // Both list where the CPU finds an op's matrices, in their order.
  struct Found {
    WeightId id;
    DType format;
    const std::byte* rows;  // in the page-locked memory
    int64_t stride;
  };
  std::vector<Found> find(size_t op, const FusedLinear& linear) const;
  std::vector<Found> find(size_t op, const FusedExperts& experts) const;
  bool take(const std::vector<Found>& weights);
  void compute(size_t op, int rows);
  int64_t row_bytes(ActId id) const { return p_.fused.row_bytes(id); }

  Parts p_;
  Stream stream_;
  Program program_;  // with the weights where the CPU finds them
  std::vector<std::optional<HostOp>> ops_;
  bool any_ = false;
  int64_t file_bytes_left_ = 0;  // of the model's file that the CPU may read in each step
  std::unique_ptr<cpu::Kernels> kernels_;
  std::unique_ptr<cpu::RowOps> row_ops_;
  PinnedMemory in_, out_;
  EventOwner arrived_;
};

// nullptr: no weights are streamed, or the GPU computes alone.
std::unique_ptr<HostOps> make_host_ops(const HostOps::Parts& parts, const RunOptions& options,
                                       Stream stream);

// Measures the link to the host, and the CPU beside it if it computes. The plan gets the speeds.
// cpu_takes_all: Switches::cpu_takes_all.
HostShare measure_host(const HostOps::Parts& parts, HostOps* host, WeightCopies& copies,
                       MemoryPlan& plan, bool cpu_takes_all);

}  // namespace skald::cuda
