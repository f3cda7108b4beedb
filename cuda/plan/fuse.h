// Fusion: adjacent ops of a Program that one kernel can do together become one fused op. An op that
// fits no pattern is no error here; the executor reports which op it cannot run.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "cuda/kernels/epilogue.h"
#include "cuda/kernels/states/short_conv.h"
#include "cuda/kernels/states/space.h"
#include "cuda/kernels/states/states.h"
#include "engine/program/program.h"

namespace skald::cuda {

// [norm], one product with the rows of all parts, epilogue. Only AddTo may have a post_norm: it
// norms the product before the addition. Floats writes a float32 buffer: the residual stream, or
// another one.
struct FusedLinear {
  std::optional<Norm> norm;
  ActId in;  // input of the norm, or of the product if there is no norm
  ActId out;
  std::vector<WeightId> parts;
  std::vector<WeightId> biases;  // one per part, or None
  Epilogue epilogue = Epilogue::Store;
  Activation activation = Activation::Silu;
  bool activates = false;  // Store: stores activation(product + bias)
  std::optional<Norm> post_norm;
  int norm_parts = 1;  // so many equal parts of a row are normed by themselves by post_norm
  float scale = 1;     // AddTo: factor of the product; Logits: factor of the logits
  float keep = 1;      // AddTo with a post_norm: factor of what the sum had before
  float softcap = 0;   // Logits
  // `in` is a copy of the residual stream in the activations' type. makes_copy: this op makes the
  // copy first. leaves_copy: this op, which has a post_norm, writes the copy that the next op
  // reads.
  bool makes_copy = false, leaves_copy = false;

  // True if the product's kernels norm the rows that they read. A Layer norm is a kernel of its own
  // before the product.
  bool norms_inside() const { return norm && norm->kind == NormKind::Rms; }
  bool caps() const { return epilogue == Epilogue::Logits && (scale != 1 || softcap != 0); }
};

// The norm of queries and keys. whole: all queries of a row are normed together, and all keys;
// otherwise each head is normed by itself.
struct QkNorm {
  WeightId q, k;  // or None: 1
  float eps;
  bool whole;
  bool after_rope = false;  // norm after rope instead of before; never if `whole`

  // Weights of the norm of so many heads.
  int64_t cols(const AttentionSpec& spec, int heads) const {
    return int64_t{spec.head_dim} * (whole ? heads : 1);
  }
};

// Norms and rotates q and k, appends k and v to the KV cache, attends. q, k and v lie side by side
// in one buffer. If it does not append, the buffer has q alone; if the keys serve as values, it has
// no v.
struct FusedAttention {
  ActId out, qkv;
  int layer;
  AttentionSpec spec;
  std::optional<int> rope;  // index into Program::ropes
  std::optional<QkNorm> norm;
  WeightId sinks = WeightId::None;
  bool appends = true;
  bool values_are_keys = false;  // v is k before its norm; the buffer has q and k alone
  bool v_norm = false;           // each head of the values in the cache is normed without weights
};

// A norm, routed experts and their sum: out += scale * sum, or out = scale * sum, a float32 buffer.
// The router reads the norm's result in float32, the experts read it in the activations' type. In
// that type the result stays in the norm's buffer, so that a shared expert can read it.
struct FusedExperts {
  Norm norm;
  ActId out;
  WeightId router, gate, up, down;  // as in Experts
  ExpertsSpec spec;
  float scale;
  WeightId router_bias, choice_bias, gate_bias, up_bias, down_bias;  // or None
  WeightId expert_scale = WeightId::None;                            // as in Experts
  // The weights that the norm has for the router, which may be None, if not those of `norm`.
  std::optional<WeightId> route_norm = {};
  bool adds = true;
  bool keeps_norm = false;  // a later op reads norm.out, such as a shared expert
  // So many ops that follow are a shared expert: gate and up, [row_gate], down. No other op reads
  // norm.out. 0: there is none, or it cannot be one more of the chosen experts.
  size_t shared_ops = 0;
};

// out = keep * out + scale * norm(a_norm(a) + b_norm(b)), all float32.
struct SumOfNorms {
  ActId out, a, b;
  WeightId norm, a_norm, b_norm;
  float eps, scale, keep;
};

// The sum of all ranks' `in`, float32. It is added to the residual stream:
// out = keep * out + scale * [norm](sum). If `in` is `out`, it replaces `in`.
struct FusedExchange {
  ActId out, in;
  float scale = 1;
  std::optional<Norm> norm = {};
  float keep = 1;  // with a norm alone

  bool in_place() const { return out == in; }
};

// out = activation(out) * up, where `up` is a float32 buffer and its columns from `first` on count.
struct GatedPart {
  ActId out, up;
  int64_t first;
  Activation activation;
};

// x = norm(x), an Rms norm of a buffer of the activations' type.
struct BufferNorm {
  ActId out;
  WeightId weight;
  float eps;
};

// Some columns of each head of a row. Heads are `width` columns apart, rows `stride`.
struct HeadPlace {
  ActId buffer;
  int64_t first, width, stride;
};

// A HeadPart whose rows may lie in a wider buffer. They keep their type, or are rounded.
struct FusedPart {
  ActId out;
  HeadPlace from, to;
  int heads;
  int64_t cols;  // of a head's part
};

// A Linear for each head by itself. The weight has the activations' type, whatever the file has.
struct HeadProducts {
  ActId out;
  HeadPlace from, to;
  WeightId weight;
  int heads;
};

// A gated delta net with its convolution before it, the norm of each head and the gate behind it.
// `in` is the product of all that the net reads, side by side.
struct FusedDelta {
  ActId out, in, convolved;
  WeightId conv, rate, bias, norm;
  float norm_eps;
  DeltaSpec spec;
  DeltaColumns columns;
  int taps;
  bool log_rate;  // as in DeltaNet
  int index;      // the number of this layer among those with a state
};

// A state space with its convolution before it, the gate and the norm of each group behind it. `in`
// is the product of all that the layer reads, side by side.
struct FusedSpace {
  ActId out, in, convolved;
  WeightId conv, conv_bias, rate, bias, skip, norm;  // conv_bias may be None
  float norm_eps;
  SpaceSpec spec;
  SpaceColumns columns;
  int taps;
  bool log_rate;  // as in StateSpace
  int index;      // the number of this layer among those with a state
};

// A convolution between two gates: out = after * conv(before * x). `in` is a product with before,
// after and x side by side.
struct FusedShortConv {
  ActId out, in;
  WeightId conv;
  ShortConvColumns columns;
  int taps;
  int index;  // the number of this layer among those with a state
};

// Norm: a norm of the residual stream that several ops read. It writes its buffer in the
// activations' type, or the residual stream itself in float32. GatedAct: gates a buffer in place.
// Embed: into a float32 buffer, the first one into the residual stream. Given: into the residual
// stream, or into a buffer of the activations' type.
struct FusedOp {
  std::variant<Embed, Given, Norm, FusedLinear, FusedAttention, FusedExperts, FusedDelta,
               FusedSpace, FusedShortConv, RowGate, GatedAct, SumOfNorms, GatedPart, FusedPart,
               BufferNorm, HeadProducts, FusedExchange>
      op;
  size_t last;  // index of the last op of the Program that this op does
};

// Buffers that the Program does not have: `qkv`; `delta` for what a delta net, a
// state space or a short convolution reads; `copy` for the residual stream in the activations'
// type.
struct FusedBuffers {
  ActId qkv, delta, copy;
};
struct Fused {
  std::vector<FusedOp> ops;
  // They give the rows of weights that fuse() has added to the program.
  std::vector<std::shared_ptr<const RowReader>> readers;
};
// Adds weights to the program where a product's rows are to lie apart from one another.
Fused fuse(Program& program, FusedBuffers buffers);

// Throws if an op has a value for which no kernel exists wherever the op stands. In support.cpp.
void refuse_ops_without_kernels(const Program& program);

}  // namespace skald::cuda
