// The one peephole: adjacent ops of a Program that one kernel can do together become one fused op.
// A pattern that is not found is not an error here; the executor says which op it cannot run.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "engine/program.h"

namespace skald::cuda {

enum class Epilogue {
  Store,   // out = W · in
  AddTo,   // out += W · in, on the residual stream
  Gated,   // out = activation(gate · in) * (up · in); parts are gate, up
  Logits,  // of the wanted rows, float32
};

// [norm], then one product with the rows of all parts, then the epilogue.
struct FusedLinear {
  std::optional<RmsNorm> norm;
  ActId in;  // what the norm reads, or the product itself
  ActId out;
  std::vector<WeightId> parts;
  std::vector<WeightId> biases;  // one a part, or None
  Epilogue epilogue = Epilogue::Store;
  Activation activation = Activation::Silu;
};

// Rotates q and k, appends k and v, attends. q, k and v lie side by side in one buffer.
struct FusedAttention {
  ActId out, qkv;
  int layer;
  AttentionSpec spec;
  std::optional<int> rope;  // index into Program::ropes
};

struct FusedOp {
  std::variant<Embed, FusedLinear, FusedAttention> op;
  size_t last;  // of the program's ops, the last that this one does
};

// `qkv` is a new buffer beside the program's own.
std::vector<FusedOp> fuse(const Program& program, ActId qkv);

}  // namespace skald::cuda
