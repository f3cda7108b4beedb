// The weights of a fused program on the current device, listed by op. The constructor uploads them;
// they never change. The weight file may be closed afterwards.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "cuda/gpu/host_memory.h"
#include "cuda/load/weights.h"
#include "cuda/plan/fused_program.h"
#include "cuda/plan/sizes.h"

namespace skald::cuda {

struct LoadedStack {
  const void* first;            // matrix of expert 0
  int64_t stride;               // bytes from one expert's matrix to the next
  const float* bias = nullptr;  // [count, outs], in the order of the matrices' rows
};

// An op and its weights. A field that names no op belongs to the op above it.
struct LoadedOp {
  const FusedOp* fused = nullptr;
  // Embed, HeadProducts: one; FusedLinear: as FusedProgram::pieces()
  std::vector<Matrix> pieces;
  const float* norm = nullptr;  // Norm, BufferNorm, FusedLinear
  const float* norm_bias = nullptr;
  const float* bias = nullptr;
  const float* post_norm = nullptr;  // and FusedExchange
  // A bound of the gated results of a FusedLinear, or of the values that a FusedAttention reads
  // (FusedProgram::bounded()). 0: no bound is known.
  float bound = 0;
  const float* gate = nullptr;                        // RowGate
  const float* conv = nullptr;                        // FusedDelta, FusedSpace, FusedShortConv
  const float* rate = nullptr;                        // FusedDelta, FusedSpace; norm, bias: above
  const float *conv_bias = nullptr, *skip = nullptr;  // FusedSpace
  const float *q_norm = nullptr, *k_norm = nullptr;   // FusedAttention
  const float* sinks = nullptr;
  const float* router = nullptr;  // FusedExperts
  const float *router_bias = nullptr, *choice_bias = nullptr, *expert_scale = nullptr;
  const float* route_norm = nullptr;                 // times the router's scale
  const float *a_norm = nullptr, *b_norm = nullptr;  // SumOfNorms
  std::vector<LoadedStack> stacks;                   // as FusedProgram::stacks()
};

// The matrices of an op that lie in the host's memory.
struct HostedOp {
  HostMemory memory;
  std::byte* slot = nullptr;  // where each step copies them to; nullptr: they are read in place
};

class LoadedModel {
 public:
  using Loading = std::function<void(int64_t bytes, int64_t of)>;

  // Borrows `fused`. `sizes` gives the bytes of weights and copies. Calls `loading`, which may be
  // empty, after every op.
  LoadedModel(const FusedProgram& fused, const Sizes& sizes, Stream stream, const Loading& loading);

  const std::vector<LoadedOp>& ops() const { return ops_; }
  const LoadedOp& head() const { return ops_.back(); }
  // Ops whose home is not the device (cuda/plan/place.h) alone.
  const HostedOp& hosted(size_t op) const { return hosted_[op]; }
  // The same matrix in the host's memory.
  const void* in_place(size_t op, const void* in_slot) const;
  int64_t unlocked_bytes() const;  // in the host's memory and not page-locked
  const float* inv_freq(int rope) const { return ropes_[static_cast<size_t>(rope)]; }

 private:
  void load_all(const Sizes& sizes, Stream stream, const Loading& loading);
  void load(size_t index, LoadedOp& op, const Placement& placement, Stream stream);
  void load(LoadedOp& op, const Embed& embed, Stream stream);
  void load(LoadedOp& op, const Norm& norm, Stream stream);
  void load(LoadedOp& op, const FusedLinear& linear, Stream stream);
  void load(LoadedOp& op, const FusedAttention& attention, Stream stream);
  void load(LoadedOp& op, const FusedExperts& experts, Stream stream);
  void load(LoadedOp& op, const FusedDelta& net, Stream stream);
  void load(LoadedOp& op, const FusedSpace& space, Stream stream);
  void load(LoadedOp& op, const FusedShortConv& conv, Stream stream);
  void load(LoadedOp& op, const RowGate& gate, Stream stream);
  void load(LoadedOp& op, const SumOfNorms& sum, Stream stream);
  void load(LoadedOp& op, const FusedExchange& exchange, Stream stream);
  void load(LoadedOp&, const Given&, Stream) {}
  void load(LoadedOp&, const GatedAct&, Stream) {}
  void load(LoadedOp&, const GatedPart&, Stream) {}
  void load(LoadedOp&, const FusedPart&, Stream) {}
  void load(LoadedOp& op, const BufferNorm& norm, Stream stream);
  void load(LoadedOp& op, const HeadProducts& products, Stream stream);
  LoadedStack load(const ExpertStack& stack, int count, Stream stream);
  const float* experts_bias(const ExpertStack& stack, int count, Stream stream);
  const float* norm_weight(WeightId id, Stream stream);
  const float* norm_weight(WeightId id, int64_t cols, Stream stream);  // or ones, if None
  const float* route_norm(const FusedExperts& experts, Stream stream);
  const float* float_rows(WeightId id, Stream stream);
  void find_bounds();
  JoinedRows joined(std::span<const WeightId> ids, bool alternate) const;

  const FusedProgram& fused_;
  Weights weights_;
  DeviceMemory slots_;            // for streamed weights
  std::vector<HostedOp> hosted_;  // one for each op; empty: all weights lie in the GPU's memory
  Matrix embedding_;
  std::vector<LoadedOp> ops_;
  struct Bounded {
    size_t op;
    const int32_t* lengths;  // RowLengths, on the GPU
    float most_bias;
  };
  std::vector<Bounded> bounded_;
  std::vector<const float*> ropes_;  // frequencies of each RopeSpec
};

}  // namespace skald::cuda
