// A model as a GPU runs it: the fused ops, their one number format, and what follows from them for
// the size of each buffer. Found by reading the Program: no CUDA, no weights' values.
#pragma once

#include <vector>

#include "cuda/plan/fuse.h"
#include "engine/program/program.h"

namespace skald::cuda {

// Parts of a fused product that lie in one matrix, for they have one format.
struct Piece {
  DType format;                // the program's type, or a block format
  size_t first = 0, last = 0;  // of the product's parts, one beyond the last
  int64_t first_out = 0, outs = 0;
};

// The matrices of all experts of a layer that are multiplied alike: one expert's lie as a Piece's
// do, gate and up rows alternating where they have one format.
struct ExpertStack {
  DType format;
  int64_t outs, ins;            // of one expert
  std::vector<WeightId> parts;  // of the first expert
};

struct FusedProgram {
  Program program;
  // Of activations, and of matrices that are not quantized: F16, BF16 or F32.
  DType type = DType::F32;
  int64_t element = 4;  // bytes of an activation
  ActId qkv{}, copy{};  // buffers beside the program's own (fuse.h)
  ActId hidden{};       // the residual stream, float32
  std::vector<FusedOp> ops;
  std::vector<AttentionSpec> specs;  // every different one
  std::vector<ActId> products;       // every product() of an op

  const FusedLinear& head() const { return std::get<FusedLinear>(ops.back().op); }
  size_t buffers() const { return program.acts.size() + 2; }  // ActIds count up to here
  int64_t cols(ActId id) const;
  int64_t row_bytes(ActId id) const;
  size_t spec_index(const AttentionSpec& spec) const;

  DType format(WeightId id) const;  // of a matrix on the GPU
  bool quantized() const;           // any matrix is

  // Of whole rows, as they follow one another. A gated product's gate and up alternate where they
  // are one piece.
  std::vector<Piece> pieces(const FusedLinear& op) const;
  bool alternates(const FusedLinear& op) const;
  // Gate and up together or each by itself; then down.
  std::vector<ExpertStack> stacks(const FusedExperts& op) const;
  int64_t outs(const FusedLinear& op) const;
  int64_t ins(const FusedLinear& op) const;
  bool has_bias(const FusedLinear& op) const;
  // Whether a bound on what comes out is worth to be known, and can be: of gated results, and of
  // values, which are the last part of what attention reads.
  bool bounded(const FusedLinear& op) const;
  bool shares_embedding(const FusedLinear& op) const;
  // With a post_norm: where the product lies before it, float32.
  ActId product(const FusedLinear& op) const { return op.post_norm->in; }
};

// On the GPU: plain rows, or a block format's tiles.
int64_t matrix_bytes(DType format, int64_t outs, int64_t ins);

// Throws Error where CUDA has no kernels for the program.
FusedProgram fuse_program(Program program);

}  // namespace skald::cuda
