// Computes fused ops on the CPU, with weights that lie in the host's memory (cuda/plan/host_op.h).
// For each op, kernels send the rows to the host and wait for its answer; serve() waits for the
// rows, computes and answers (cuda/kernels/host_rows/host_rows.h). The kernels can be a part of a
// captured graph. A step's ops are served in the order of the kernels, before anything waits for
// the GPU.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/experts/experts_cache.h"
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

  // Enqueue the kernels of an op that the CPU computes.
  void send(size_t op, int rows);
  void receive(size_t op, int rows);
  // The same for experts with a cache, of which the CPU computes a part. choose_slots sends the
  // rows; `asked` is the first of ChooseSlotsLaunch::moves.
  ChooseSlotsLaunch::ForCpu choice(size_t op, int rows) const;
  void receive_sum(size_t op, int rows, const int32_t* asked);

  // chosen: the CPU computes a part of the op's experts.
  void serve(size_t op, int rows, bool chosen);
  // Lets the kernels of a step that has failed end, and waits for them.
  void abort();

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
  void compute_rows(size_t op, int rows);
  void compute_chosen(size_t op, int rows);
  Request wait_for_request(size_t op) const;
  CpuTurn turn(size_t op) const;
  void* act(ActId id) const { return p_.acts[static_cast<size_t>(id)].as<void>(); }
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
  PinnedMemory chosen_, weights_;  // [kMostSharedRows, used]
  PinnedMemory turns_;             // a request and an answer for each op, then `aborted`
};

// nullptr: no weights are streamed, or the GPU computes alone.
std::unique_ptr<HostOps> make_host_ops(const HostOps::Parts& parts, const RunOptions& options,
                                       Stream stream);

// Measures the link to the host, and the CPU beside it if it computes. The plan gets the speeds.
// cpu_part: Switches::cpu_part.
HostShare measure_host(const HostOps::Parts& parts, HostOps* host, WeightCopies& copies,
                       MemoryPlan& plan, CpuPart cpu_part);

}  // namespace skald::cuda
