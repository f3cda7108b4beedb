// The products of a fused program, each with the kernels before and after it, and the memory that
// only products need. One a executor, on its stream and device; run() enqueues and never waits.
#pragma once

#include <optional>
#include <utility>

#include "cuda/gpu/memory.h"
#include "cuda/kernels/linear.h"
#include "cuda/load/loaded_model.h"
#include "cuda/plan/linear_steps.h"

namespace skald::cuda {

class Products {
 public:
  struct Setting {
    const FusedProgram& fused;
    const Sizes& sizes;
    const std::vector<DeviceMemory>& acts;  // one a buffer of the program
    Gpu gpu;                                // what kernels are chosen for
    bool reproducible;                      // no kernel is chosen by the number of rows
  };
  // Borrows what the setting refers to.
  Products(const Setting& setting, Stream stream);

  struct Rows {
    const void* in;  // [count, ins]: the op's own buffer, or rows of it
    int count;
    float* logits;                   // [count, vocab]; where logits go
    bool dependent;                  // LinearLaunch's
    bool observed = false;           // out is read by others than the next
    const LoadedOp* next = nullptr;  // what runs after this one, with the same rows
  };
  void run(const LoadedOp& op, const FusedLinear& linear, const Rows& rows);
  // Where the kernel ahead of `op` may leave in place of `from`, which is to be op's input, what it
  // takes: no larger than `bound`. No memory: nowhere. Else op is to be the next that runs.
  LeftRows left_for(const LoadedOp* op, ActId from, float bound, int rows);

 private:
  template <class T = void>
  T* act(ActId id) const {
    return s_.acts[static_cast<size_t>(id)].as<T>();
  }
  std::vector<LinearLaunch> launches(const LoadedOp& op, const FusedLinear& linear, int rows) const;
  std::vector<LinearKernel> selected(const std::vector<LinearLaunch>& launches) const;
  void hand_over(std::vector<LinearLaunch>& launches, const std::vector<LinearKernel>& kernels,
                 const LoadedOp& op, const Rows& rows);
  const FusedLinear* takes_handed(const LoadedOp& op, const FusedLinear& from, int rows) const;
  bool are_one_kernel(const std::vector<LinearLaunch>& launches,
                      const std::vector<LinearKernel>& kernels) const;
  void tell_next(std::vector<LinearLaunch>& launches, const std::vector<LinearKernel>& kernels,
                 const LoadedOp& op, const Rows& rows);
  bool is_one_gemv_q(const std::vector<LinearLaunch>& launches,
                     const std::vector<LinearKernel>& kernels) const;
  void start_attention_late(std::vector<LinearLaunch>& launches,
                            const std::vector<LinearKernel>& kernels) const;
  void multiply(const std::vector<LinearLaunch>& launches,
                const std::vector<LinearKernel>& kernels);
  void multiply(const LinearLaunch& launch, LinearKernel kernel);
  void multiply_expanded(const LinearLaunch& launch);
  void finish(const LoadedOp& op, const FusedLinear& linear, const Rows& rows, void* out);

  Setting s_;
  bool paired_;  // LinearLaunch's, of one row
  // Formats of the first product that gemv_q_sm90 has as a pair: others of one row take its kernel.
  std::optional<std::pair<DType, DType>> mixed_;
  ClusterRoom room_;
  Stream stream_;
  GemmCublas gemm_;
  DeviceMemory expanded_;                   // rows of a quantized matrix in 16 bits
  DeviceMemory workspace_;                  // of gemm_q_sm90
  DeviceMemory handed_;                     // from one of its products to the next
  DeviceMemory pairs_;                      // gate and up before the activation
  DeviceMemory tickets_;                    // of each piece; behind them LinearLaunch::tells
  bool norms_known_ = false;                // of this step's rows, in handed_
  const FusedLinear* handed_to_ = nullptr;  // whose activations are in handed_
  const FusedLinear* left_to_ = nullptr;    // and in workspace_
  const FusedLinear* told_ = nullptr;       // what heeds the product before
};

}  // namespace skald::cuda
