// A model as a GPU runs it: the fused ops, the type of their activations, and the sizes of buffers
// that follow. Derived from the Program alone, without CUDA and without the values of weights.
#pragma once

#include <optional>
#include <vector>

#include "cuda/plan/fuse.h"
#include "engine/program/program.h"

namespace skald::cuda {

// Neighbouring parts of a fused product that have one format and lie in one matrix.
struct Piece {
  DType format;                // the program's type, or a block format
  size_t first = 0, last = 0;  // range of the product's parts; `last` is exclusive
  int64_t first_out = 0, outs = 0;
};

// Matrices of all experts of a layer. An expert's matrix is laid out like a Piece: rows of gate and
// up alternate if they have one format.
struct ExpertStack {
  DType format;
  int64_t outs, ins;             // rows and columns of one expert's matrix
  std::vector<WeightId> parts;   // matrices of expert 0
  std::vector<WeightId> biases;  // one a part, with a row for each expert; or empty
};

struct FusedProgram {
  Program program;
  // Type of activations and of matrices that are not quantized: F16, BF16 or F32.
  DType type = DType::F32;
  int64_t element = 4;           // bytes of an activation
  ActId qkv{}, delta{}, copy{};  // buffers beside the program's own (fuse.h)
  ActId hidden{};                // the residual stream, float32
  std::vector<FusedOp> ops;
  std::vector<AttentionSpec> specs;  // without duplicates
  // Buffers besides `hidden` that hold float32: product() of each op that has a post_norm, second
  // embeddings, results of products and experts that a later norm reads.
  std::vector<ActId> floats;
  // For each op the first op that has the same weights, or the op itself. A looped model runs its
  // layers several times with weights that are on the GPU once.
  std::vector<size_t> first_with_weights;
  std::vector<std::shared_ptr<const RowReader>> readers;  // these own rows of program.weights

  const FusedLinear& head() const { return std::get<FusedLinear>(ops.back().op); }
  size_t buffers() const { return program.acts.size() + 3; }  // ActIds count up to here
  int64_t cols(ActId id) const;
  DType type_of(ActId id) const;  // of the buffer's numbers: F32, or `type`
  int64_t row_bytes(ActId id) const;
  size_t spec_index(const AttentionSpec& spec) const;

  DType format(WeightId id) const;  // the format that a matrix has on the GPU
  bool quantized() const;           // at least one matrix is quantized

  // The pieces in the order of their rows. Rows of gate and up alternate if they are one piece
  // (alternates()).
  std::vector<Piece> pieces(const FusedLinear& op) const;
  bool alternates(const FusedLinear& op) const;
  // The stack of gate and up, or one stack for each; or up alone. Then the stack of down.
  std::vector<ExpertStack> stacks(const FusedExperts& op) const;
  // True if the router's input has other factors than the experts': weights of its own, or the
  // router's scale, which is a part of them.
  bool routes_apart(const FusedExperts& op) const {
    return op.route_norm || op.spec.router_scale != 1;
  }
  DeltaShape shape(const FusedDelta& op) const;
  SpaceShape shape(const FusedSpace& op) const;
  int64_t state_floats(const FusedOp& op) const;  // of a sequence; 0: the op has no state
  int64_t outs(const FusedLinear& op) const;
  int64_t ins(const FusedLinear& op) const;
  bool has_bias(const FusedLinear& op) const;
  // The buffer that the op writes, if it writes float32 in it and no logits.
  std::optional<ActId> float_result(const FusedOp& op) const;
  // True if rows prepared in f16 may need a bound on this product's results, and a bound can be
  // derived: for gated results, and for v of a q, k, v product.
  bool bounded(const FusedLinear& op) const;
  // A bound on the magnitude of the values that attention reads, where their product gives none;
  // 0: unknown. Nothing: the product before attention bounds them.
  std::optional<float> own_bound(const FusedAttention& op) const;
  bool shares_embedding(const FusedLinear& op) const;
  // The float32 buffer of a product before its post_norm.
  ActId product(const FusedLinear& op) const { return op.post_norm->in; }
};

// Bytes on the GPU: plain rows, or tiles of a block format.
int64_t matrix_bytes(DType format, int64_t outs, int64_t ins);

// Throws Error if CUDA has no kernels for the program.
FusedProgram fuse_program(Program program);

}  // namespace skald::cuda
