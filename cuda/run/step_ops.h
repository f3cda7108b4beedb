// Walks the fused ops of a step: what each is launched with, and the memory that only they need.
// One an executor, on its stream and device; everything is enqueued, nothing waits.
#pragma once

#include <vector>

#include "cuda/cuda.h"
#include "cuda/load/loaded_model.h"
#include "cuda/run/experts.h"
#include "cuda/run/products.h"
#include "cuda/run/step_table.h"

namespace skald::cuda {

class StepOps {
 public:
  // Borrowed.
  struct Parts {
    const FusedProgram& fused;
    const Sizes& sizes;
    const LoadedModel& loaded;
    const StepBuffer& step;
    const std::vector<DeviceMemory>& acts;  // one a buffer of the program
    const DeviceMemory& cache;
    const DeviceMemory& logits;
    const Observer& observer;
  };
  struct Setting {
    Gpu gpu;  // what kernels are chosen for
    AttentionCode attention;
    bool dependent;     // decode kernels start while the one ahead still runs
    bool clusters;      // of blocks, in decode attention
    bool reproducible;  // no kernel is chosen by the number of rows
  };
  StepOps(const Parts& parts, const Setting& setting, Stream stream);

  // Of the step whose lists were sent. `decode`: a row of each sequence, all of them wanted; the
  // logits are made too. `after_pick`: the kernel ahead is what picks the step's tokens.
  struct Rows {
    int count;
    bool decode;
    int depth = 0;  // of decode: decode_depth() of the deepest row
    bool after_pick = false;
  };
  void run(const Rows& rows);

  // out = the last norm of in, both float [rows, dim]: what the head multiplies.
  void norm_rows(const float* in, float* out, int rows);
  // logits = head(in), in: [rows, dim]
  void run_head(const void* in, int rows, bool decode);

 private:
  template <class T>
  T* act(ActId id) const {
    return p_.acts[static_cast<size_t>(id)].as<T>();
  }
  void run_embed(const LoadedOp& op, const Embed& embed, const Rows& rows);
  void run_norm(const LoadedOp& op, const Norm& norm, int rows, bool dependent);
  void run_attention(const LoadedOp& op, const FusedAttention& attention, const Rows& rows,
                     const LoadedOp* next);
  void observe(const FusedOp& op, int rows);

  Parts p_;
  Setting s_;
  Stream stream_;
  Products products_;
  RoutedExperts experts_;
  DeviceMemory workspace_, tickets_;  // of attention
};

}  // namespace skald::cuda
