// A Program is a model as a flat list of ops over named activation buffers. Code in models/ builds
// it once, with every weight bound and its shape checked; a backend walks it. A Program has no
// control flow: chunking, sampling and stop rules belong to the scheduler.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/program/specs.h"
#include "engine/program/tensor.h"
#include "engine/program/weights.h"

namespace skald {

enum class ActId : int32_t {};
enum class WeightId : int32_t { None = -1 };

// Rotates pairs of a head's first n = 2 * inv_freq.size() dimensions by position * inv_freq[i].
// Half-split pairs are (i, i + n/2): Hugging Face's layout of heads. Interleaved pairs are
// (2i, 2i + 1): GGUF's layout for the llama architecture.
struct RopeSpec {
  std::vector<float> inv_freq;  // for a short context, if frequencies depend on the context
  bool interleaved = false;
  float scale = 1;  // multiplies cosines and sines
  // inv_freq for a context of `context` tokens; empty if inv_freq serves every context.
  std::function<std::vector<float>(int64_t context)> by_context = {};
};

// out = scale * the token's row of the weight
struct Embed {
  ActId out;
  WeightId weight;  // [vocab, dim]
  float scale = 1;
};
// out = numbers that the step has for each of its rows: the columns of SeqRows::given from `first`
// on. Several such ops share the columns among them.
struct Given {
  ActId out;
  int64_t first = 0;
};
// Rms: out = in / sqrt(mean(in²) + eps) * weight
// Layer: out = (in - mean(in)) / sqrt(variance(in) + eps) * weight + bias
struct Norm {
  ActId out, in;
  WeightId weight;  // [1, dim], or None: 1; a Layer norm has one
  float eps;
  NormKind kind = NormKind::Rms;
  WeightId bias = WeightId::None;  // [1, dim], or None; an Rms norm has none
};
// An Rms norm of each head by itself, in place.
struct HeadNorm {
  ActId x;
  WeightId weight;  // [1, head_dim]; or as many numbers as all heads have: each its own; None: 1
  int heads;
  int head_dim;
  float eps;
};
// out = weight · in + bias
// With several heads, each has rows of its own in the weight, which has no bias then. A head's rows
// multiply the columns of its part of `in` from in_first on, as many as the weight has, and fill
// the columns of its part of `out` from out_first on. Other columns of `out` keep their numbers.
struct Linear {
  ActId out, in;    // two buffers
  WeightId weight;  // [out, in]
  WeightId bias;    // [1, out] or None
  int heads = 1;
  int in_first = 0, out_first = 0;
};
// A row's adapter changes the product of a matrix: out += up · (down · in), with the matrices of
// the row's adapter in Program::adapted (engine/program/adapters.h). Rows whose adapter leaves the
// matrix as it is keep their numbers.
struct Delta {
  ActId out, in;  // two buffers
  int matrix;     // index into Program::adapted
};
struct Rope {
  ActId x;
  int heads;
  int head_dim;
  int spec;  // index into Program::ropes
};
// Appends k and v of the step's rows to their sequences, then attends causally. A sink is a score
// that joins the softmax of its query head and has no value: it takes weight from the keys. If it
// does not append, it reads the keys and values that an earlier op of the list has appended to the
// same layer of the cache, and neither k nor v.
struct Attention {
  ActId out, q, k, v;
  int layer;
  AttentionSpec spec;
  WeightId sinks = WeightId::None;  // [1, heads] or None
  bool appends = true;
};
// out = activation(gate) * up
struct GatedAct {
  ActId out, gate, up;
  Activation activation;
};
// Copies a part of each head of `in`: its columns [first, first + cols). In `out` the parts stand
// side by side from column `to` on, or `width` columns apart.
struct HeadPart {
  ActId out, in;  // two buffers
  int heads;      // of `in`, all of one width
  int cols;
  int first = 0;
  int to = 0;
  int width = 0;  // 0: cols
};
// A convolution over the tokens of a sequence, each column by itself, then an activation:
// out[t] = activation(bias + sum over i of weight[i] * in[t - (taps - 1) + i]). The state holds the
// last taps - 1 rows of `in`. Zeros stand before the first token.
struct CausalConv {
  ActId out, in;    // two buffers
  WeightId weight;  // [in's columns, taps]
  int taps;
  int state;                                 // index into Program::states
  Activation activation = Activation::Silu;  // or Identity
  WeightId bias = WeightId::None;            // [1, in's columns], or None: 0
};
// A gated delta net: attention whose memory is one matrix S [key_dim, value_dim] for each value
// head. A token decays S, reads what S holds for its key k, and corrects it towards its value v:
//   S = exp(rate * softplus(decay + bias)) * S,  S += k ⊗ sigmoid(beta) * (v - Sᵀk),  out = Sᵀq
// k and q are scaled to length 1, and q is divided by sqrt(key_dim). The state holds S.
struct DeltaNet {
  ActId out;          // [value_heads * value_dim]
  ActId in;           // queries, keys and values side by side
  ActId decay, beta;  // [value_heads]
  WeightId rate;      // [1, value_heads]; or A, if the rate is -exp(A)
  WeightId bias;      // [1, value_heads]
  DeltaSpec spec;
  bool log_rate;  // the weight `rate` is A
  int state;      // index into Program::states
};
// A state space (Mamba-2): attention whose memory is one matrix S [head_dim, state_dim] for each
// head. A token's step, softplus(step + bias) within the spec's bounds, says how much S fades and
// how much of it is new:
//   S = exp(rate * step) * S + step * value ⊗ key,  out = S · query + skip * value
// The state holds S.
struct StateSpace {
  ActId out;            // [spec.values()]
  ActId in;             // values, keys and queries side by side
  ActId step;           // [heads]
  WeightId rate;        // [heads numbers]; or A, if the rate is -exp(A)
  WeightId bias, skip;  // the same number
  SpaceSpec spec;
  bool log_rate;  // the weight `rate` is A
  int state;      // index into Program::states
};
// out = activation(in), each number by itself
struct Activate {
  ActId out, in;
  Activation activation;
};
// Each row of x is multiplied by one factor, sigmoid(weight · in).
struct RowGate {
  ActId x, in;      // two buffers
  WeightId weight;  // [1, in's columns]
};
// A gated feed-forward of experts: out is the sum of weight[e] * y[e] over a row's experts, in the
// order of their numbers. y[e] = down[e] · (activation(gate[e] · in) * (up[e] · in)). weight is the
// softmax of router_scale * router · route over all experts, or its sigmoid; if normalized, it is
// divided by the sum over the used experts. In the end it is multiplied by the expert's own scale.
// Without a gate, y[e] = down[e] · activation(up[e] · in).
// Routing is computed in float32 on every backend. Each product may have a bias.
//
// gate, up and down are the first expert's; the weights of the others have the next numbers. All
// experts have one format and shape. If the file stacks them, they follow one another in memory;
// between gates may stand ups.
struct Experts {
  ActId out, in;    // two buffers
  ActId route;      // what the router reads; `in`, or another buffer of its width
  WeightId router;  // [count, dim]
  WeightId gate;    // [ffn_dim, dim], or None
  WeightId up;      // [ffn_dim, dim]
  WeightId down;    // [dim, ffn_dim]
  ExpertsSpec spec;
  // A row for each expert, or None. All three products have one, or none has.
  WeightId gate_bias = WeightId::None, up_bias = WeightId::None;  // [count, ffn_dim]
  WeightId down_bias = WeightId::None;                            // [count, dim]
  WeightId router_bias = WeightId::None;                          // [1, count]
  WeightId choice_bias = WeightId::None;   // [1, count], added to sigmoids for the choice alone
  WeightId expert_scale = WeightId::None;  // [1, count], or None: 1

  WeightId of(WeightId first, int expert) const {
    return static_cast<WeightId>(static_cast<int32_t>(first) + expert);
  }
};
// x = keep * x + scale * y
struct Add {
  ActId x, y;
  float scale = 1;
  float keep = 1;
};
// x = the sum of all ranks' x, the same on every rank (engine/program/shard.h).
struct AllReduce {
  ActId x;
};
// z = scale * weight · in, then softcap * tanh(z / softcap) if softcap is not 0. Computed for the
// wanted rows alone. The last op of every program. In a shard, the weight may have only a part of
// the rows: those from `first` on, of `of` in all. The ranks then gather their logits.
struct Logits {
  ActId in;
  WeightId weight;  // [vocab, dim]
  float scale = 1;
  float softcap = 0;
  int64_t first = 0, of = 0;  // of = 0: the weight has all rows

  bool is_part() const { return of > 0; }
};

using Op = std::variant<Embed, Given, Norm, HeadNorm, Linear, Delta, Rope, Attention, HeadPart,
                        CausalConv, DeltaNet, StateSpace, GatedAct, Activate, RowGate, Experts, Add,
                        AllReduce, Logits>;

struct ActSpec {
  std::string name;
  int64_t cols = 0;
};

struct Weight {
  std::string name;
  TensorView view;
  // Added to each number of a norm's weight: Gemma's safetensors hold weight - 1.
  float plus = 0;
  TensorView source = {};  // the part of Tensor::source that belongs to `view`
  std::string file = {};   // for messages
  // If the view is a part of a tensor: the tensor's name, and where the part begins.
  std::string whole = {};
  int64_t first_row = 0, first_col = 0;

  const std::string& tensor() const { return whole.empty() ? name : whole; }
};

// A matrix that adapters change: the first and the second factor of each adapter's change.
struct AdaptedMatrix {
  std::vector<WeightId> down;  // [adapters] of [rank, the matrix's columns]; None: no change
  std::vector<WeightId> up;    // [adapters] of [the matrix's rows, rank]
};

// What a head that guesses further tokens reads of the model whose tokens it guesses
// (engine/speculate/head_texts.h).
enum class Features : uint8_t {
  Stream,  // the residual stream after the last layer
  Normed,  // the same after the last norm, the input of the logits
  Taps,    // Program::taps
};

// A layer's cache holds kv_heads * head_dim keys and as many values for each token.
struct KvLayer {
  int kv_heads = 0;
  int head_dim = 0;
};

// A recurrent state: numbers of a sequence that each token replaces. They start as zeros.
struct StateSpec {
  int64_t floats = 0;
};

// One of the ranks that compute a model together: each has a part of the weights and of the cache.
struct Shard {
  int rank = 0;
  int of = 1;

  bool operator==(const Shard&) const = default;
};

struct Program {
  std::vector<Op> ops;
  std::vector<ActSpec> acts;
  std::vector<Weight> weights;
  std::vector<RopeSpec> ropes;
  std::vector<KvLayer> kv;                       // one per layer with attention
  std::vector<StateSpec> states;                 // one per op with a state
  std::vector<AdaptedMatrix> adapted;            // matrices that Delta ops change
  int adapters = 0;                              // 0: the program has none
  std::vector<std::shared_ptr<const void>> own;  // memory of weights that no file has
  Shard shard;                                   // the rank that the program is for
  std::optional<ActId> taps;  // the residual stream before several layers (engine/program/taps.h)

  const ActSpec& act(ActId id) const { return acts[static_cast<size_t>(id)]; }
  const Weight& weight(WeightId id) const { return weights[static_cast<size_t>(id)]; }
  // Chooses the frequencies of every rope. An executor calls it once, when it knows its context.
  void bind_context(int64_t context);
  const Logits& logits() const { return std::get<Logits>(ops.back()); }
  int64_t vocab() const;       // logits of a row, all ranks' together
  int64_t tokens() const;      // a step's tokens are numbers below this
  int64_t given_cols() const;  // numbers that each row of a step is given; 0: none
  ActId stream() const;        // the residual stream, which the first op writes
  ActId features(Features kind) const;
  int64_t state_floats() const;  // all states of a sequence; 0: the model has none
  // The bytes that a decode step of so many sequences reads: a row of the embedding for each
  // sequence, and the expected number of different experts if each row chooses its experts at
  // random.
  int64_t weight_bytes(int sequences = 1) const;
};

// Checks that each op's buffers and weights agree.
void check_program(const Program& program);

std::string_view op_name(const Op& op);
// The buffer that an op writes; Logits writes none.
const ActId* op_output(const Op& op);
// The buffers that an op reads. An op that works in place reads the buffer that it writes.
std::vector<ActId> op_inputs(const Op& op);

// Collects a Program. Each call for a weight looks it up and checks its shape. A weight that ops
// ask for repeatedly, as the layers of a looped model do, has one WeightId.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(const WeightFile& file) : file_(file) {}

  ActId act(std::string name, int64_t cols);
  int64_t cols(ActId id) const { return program_.act(id).cols; }
  WeightId weight(const std::string& name, int64_t rows, int64_t cols);
  WeightId norm_weight(const std::string& name, int64_t cols, float plus = 0);
  WeightId optional_weight(const std::string& name, int64_t rows, int64_t cols);  // or None
  // `count` rows from `first` on, of a weight that several ops use.
  WeightId weight_rows(const std::string& name, int64_t rows, int64_t cols, int64_t first,
                       int64_t count);
  // `count` columns from `first` on. A block format is cut at block borders.
  WeightId weight_cols(const std::string& name, int64_t rows, int64_t cols, int64_t first,
                       int64_t count);
  // `count` matrices, one for each expert: the tensor `stack`, or one tensor per expert, named by
  // `single`. Returns the first expert's number; the other experts have the next numbers.
  WeightId expert_weights(const std::string& stack, const std::function<std::string(int)>& single,
                          int count, int64_t rows, int64_t cols);
  // The same for a stack whose experts have `whole` rows each: rows [first, first + rows) of each.
  WeightId expert_rows(const std::string& stack, int count, int64_t whole, int64_t cols,
                       int64_t first, int64_t rows);
  int rope(RopeSpec spec);
  int kv_layer(KvLayer layer);
  int state(StateSpec state);
  void add(Op op) { program_.ops.push_back(op); }
  Program finish() &&;  // with check_program()

 private:
  Weight whole(const std::string& name, int64_t rows, int64_t cols) const;
  WeightId add(Weight weight);  // or the weight of that name, if the program has it

  const WeightFile& file_;
  Program program_;
  std::map<std::string, WeightId> weights_;  // by Weight::name
};

}  // namespace skald
