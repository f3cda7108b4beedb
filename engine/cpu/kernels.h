// The arithmetic of the CPU backend: one function for each op, on float32 rows. There are two
// implementations. reference_kernels() are plain loops that can be checked against the formulas;
// fast_kernels() use SIMD and a thread pool. In both, a row's result is the same, to the last bit,
// whatever the other rows of the call, the split of rows into calls, and the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/program/program.h"
#include "engine/program/tensor.h"
#include "engine/quant/cache_type.h"

namespace skald::cpu {

class ProductObserver;

struct EmbedArgs {
  TensorView weight;      // [vocab, dim]
  const int32_t* tokens;  // [rows], each < vocab
  float* out;             // [rows, dim]
  int64_t rows;
  float scale = 1;
};

struct RmsNormArgs {
  const float* in;      // [rows, dim]
  const float* weight;  // [weights, dim], by turns one for each row; or nullptr
  float* out;           // [rows, dim]; may be `in`
  int64_t rows, dim;
  float eps;
  int64_t weights = 1;

  const float* weight_of(int64_t row) const {
    return weight ? weight + row % weights * dim : nullptr;
  }
};

struct LayerNormArgs {
  const float* in;      // [rows, dim]
  const float* weight;  // [dim]
  const float* bias;    // [dim] or nullptr
  float* out;           // [rows, dim]; may be in
  int64_t rows, dim;
  float eps;
};

struct LinearArgs {
  TensorView weight;  // [out_dim, in_dim], any format
  const float* bias;  // [out_dim] or nullptr
  const float* in;    // [rows, in_dim]
  float* out;         // [rows, out_dim]
  int64_t rows;
};

struct RopeArgs {
  float* x;                  // [rows, heads * head_dim], rotated in place
  const int64_t* positions;  // [rows]
  const RopeSpec* spec;
  int64_t rows;
  int heads, head_dim;
};

// The KV cache of one layer. Its LayerCache in page p starts at data + p * page_stride.
struct KvCacheView {
  std::byte* data;
  int64_t page_stride;  // bytes
  CacheTypes types;
};

struct AttentionRow {
  std::span<const int32_t> pages;  // pages of the row's sequence
  int64_t position;                // position of the row in its sequence
};

struct AttentionArgs {
  const float* q;          // [rows, heads * head_dim]
  const float* k;          // [rows, kv_heads * head_dim]; appended to the cache before attention
  const float* v;          // [rows, kv_heads * head_dim]; k and v are nullptr: nothing is appended
  float* out;              // [rows, heads * head_dim]
  const AttentionRow* at;  // [rows]; a sequence's rows are adjacent and in order
  int64_t rows;
  KvCacheView cache;
  AttentionSpec spec;
  const float* sinks = nullptr;  // [heads] or nullptr
};

struct GatedActArgs {
  const float* gate;  // [count]
  const float* up;    // [count]
  float* out;         // [count]; may be `gate` or `up`
  int64_t count;
  Activation activation;
};

struct ActivateArgs {
  const float* in;  // [count]
  float* out;       // [count]; may be in
  int64_t count;
  Activation activation;
};

struct HeadPartArgs {
  const float* in;  // [rows, in_cols], of `heads` heads
  float* out;       // [rows, out_cols]
  int64_t rows, in_cols, out_cols;
  HeadPart part;
};

// One op's state of the sequence of each row. A sequence's rows are adjacent and in order, so each
// run of rows with one pointer updates one state. A row at position 0 starts from zeros.
struct StateRow {
  float* state;
  int64_t position;
};

struct CausalConvArgs {
  const float* in;      // [rows, cols]
  const float* weight;  // [cols, taps]
  float* out;           // [rows, cols]; not `in`
  const StateRow* at;   // [rows]; a state is [taps - 1, cols], the oldest row first
  int64_t rows, cols;
  int taps;
  Activation activation = Activation::Silu;  // or Identity
  const float* bias = nullptr;               // [cols] or nullptr
};

struct DeltaNetArgs {
  const float* in;            // [rows, 2 * spec.keys() + spec.values()]
  const float *decay, *beta;  // [rows, value_heads]
  const float *rate, *bias;   // [value_heads]
  float* out;                 // [rows, spec.values()]
  const StateRow* at;         // [rows]; a state is [value_heads, key_dim, value_dim]
  int64_t rows;
  DeltaSpec spec;
};

struct StateSpaceArgs {
  const float* in;                  // [rows, spec.inputs()]
  const float* step;                // [rows, heads]
  const float *rate, *bias, *skip;  // [heads]
  float* out;                       // [rows, spec.values()]
  const StateRow* at;               // [rows]; a state is [heads, head_dim, state_dim]
  int64_t rows;
  SpaceSpec spec;
};

struct RowGateArgs {
  float* x;             // [rows, cols]; each row is multiplied by sigmoid(weight · its row of in)
  const float* in;      // [rows, dim]
  const float* weight;  // [dim]
  int64_t rows, cols, dim;
};

struct ExpertsArgs {
  TensorView router;   // [count, dim]
  const Weight* gate;  // [count] of [ffn_dim, dim]; nullptr: Experts without a gate
  const Weight* up;    // [count] of [ffn_dim, dim]
  const Weight* down;  // [count] of [dim, ffn_dim]
  const float* in;     // [rows, dim]
  float* out;          // [rows, dim]; must not be `in`
  int64_t rows;
  ExpertsSpec spec;
  // Biases, float32, or nullptr: [count], [count, ffn_dim], the same, [count, dim].
  const float *router_bias = nullptr, *gate_bias = nullptr, *up_bias = nullptr,
              *down_bias = nullptr;
  const float* choice_bias = nullptr;   // [count]
  const float* expert_scale = nullptr;  // [count]
  const float* route = nullptr;         // [rows, dim], for the router; nullptr: in
  // The choice, if it is known: [rows, used], the experts and their weights, which expert_scale
  // still multiplies. Expert -1 is left out. nullptr: the router chooses.
  const int32_t* chosen = nullptr;
  const float* weights = nullptr;
  ProductObserver* observer = nullptr;  // sees each expert's products
};

// x = keep * x + scale * y
struct AddArgs {
  float* x;        // [count]
  const float* y;  // [count]
  int64_t count;
  float scale = 1, keep = 1;
};

// x = softcap * tanh(scale * x / softcap); if softcap is 0, x = scale * x.
struct CapArgs {
  float* x;  // [count]
  int64_t count;
  float scale, softcap;
};

class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual void embed(const EmbedArgs& args) = 0;
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  virtual void layer_norm(const LayerNormArgs& args) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  virtual void rope(const RopeArgs& args) = 0;
  virtual void attention(const AttentionArgs& args) = 0;
  virtual void gated_act(const GatedActArgs& args) = 0;
  virtual void activate(const ActivateArgs& args) = 0;
  virtual void head_part(const HeadPartArgs& args) = 0;
  virtual void causal_conv(const CausalConvArgs& args) = 0;
  virtual void delta_net(const DeltaNetArgs& args) = 0;
  virtual void state_space(const StateSpaceArgs& args) = 0;
  virtual void row_gate(const RowGateArgs& args) = 0;
  virtual void experts(const ExpertsArgs& args) = 0;
  virtual void add(const AddArgs& args) = 0;
  virtual void cap(const CapArgs& args) = 0;
  // Sums all bytes as fast as the threads can read them. `skald bench` measures the memory
  // bandwidth with this function.
  virtual uint64_t read_all(std::span<const std::byte> bytes) = 0;
  virtual std::string description() const = 0;  // "AVX3_DL, 2 threads"
};

// The largest sizes among a program's Experts ops; all 0 if there are none.
struct ExpertsSize {
  int64_t count = 0, used = 0, dim = 0, ffn_dim = 0;
};

struct KernelOptions {
  bool exact = false;  // true: fast_kernels() keep float32 activations for block formats
  int threads = 1;
  int64_t max_rows = 1;  // most rows of any call
  int64_t max_cols = 1;  // most input columns of any linear()
  ExpertsSize experts = {};
  bool patient = false;  // calls follow one another after milliseconds (ThreadPool)
};

std::unique_ptr<Kernels> reference_kernels(const KernelOptions& options);
std::unique_ptr<Kernels> fast_kernels(const KernelOptions& options);

}  // namespace skald::cpu
