// The one peephole: adjacent ops of a Program that one kernel can do together become one fused op.
// A pattern that is not found is not an error here; the executor says which op it cannot run.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "cuda/kernels/epilogue.h"
#include "engine/program/program.h"

namespace skald::cuda {

// [norm], then one product with the rows of all parts, then the epilogue. With a post_norm, which
// AddTo alone may have, the product is normed before it is added.
struct FusedLinear {
  std::optional<Norm> norm;
  ActId in;  // what the norm reads, or the product itself
  ActId out;
  std::vector<WeightId> parts;
  std::vector<WeightId> biases;  // one a part, or None
  Epilogue epilogue = Epilogue::Store;
  Activation activation = Activation::Silu;
  std::optional<Norm> post_norm;
  float scale = 1;    // AddTo: of what is added; Logits: of the logits
  float softcap = 0;  // Logits
  // `in` is a copy of the residual stream in the activations' type, which is to be made first, or
  // which the op before has left: that one has a post_norm and leaves_copy.
  bool makes_copy = false, leaves_copy = false;

  // The product's kernels norm the rows that they read. A Layer norm is a kernel before the
  // product.
  bool norms_inside() const { return norm && norm->kind == NormKind::Rms; }
  bool caps() const { return epilogue == Epilogue::Logits && (scale != 1 || softcap != 0); }
};

// What queries and keys are normed with: each head by itself, or all of a row's together.
struct QkNorm {
  WeightId q, k;
  float eps;
  bool whole;
  bool after_rope = false;  // else before they rotate; never if `whole`
};

// Norms and rotates q and k, appends k and v, attends. q, k and v lie side by side in one buffer.
struct FusedAttention {
  ActId out, qkv;
  int layer;
  AttentionSpec spec;
  std::optional<int> rope;  // index into Program::ropes
  std::optional<QkNorm> norm;
};

// The norm before the experts, which their router takes in float32 and their products in the
// activations' type, and what they add to the residual stream: out += scale * their sum.
struct FusedExperts {
  Norm norm;
  ActId out;
  WeightId router, gate, up, down;  // as in Experts
  ExpertsSpec spec;
  float scale;
};

// A Norm is a norm of the residual stream that several ops read: it writes its buffer, in the
// activations' type.
struct FusedOp {
  std::variant<Embed, Norm, FusedLinear, FusedAttention, FusedExperts> op;
  size_t last;  // of the program's ops, the last that this one does
};

// New buffers beside the program's own: `qkv`, and `copy` for the residual stream in the
// activations' type.
struct FusedBuffers {
  ActId qkv, copy;
};
std::vector<FusedOp> fuse(const Program& program, FusedBuffers buffers);

}  // namespace skald::cuda
