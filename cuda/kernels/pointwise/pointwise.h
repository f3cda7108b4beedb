// The small kernels between products and attention. Rows are the grid's x dimension, whose limit no
// step can reach.
#pragma once

#include "cuda/gpu/stream.h"
#include "cuda/kernels/embed.h"
#include "engine/program/specs.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

void launch_embed(const EmbedLaunch& launch, Stream stream);

// out = x / sqrt(mean(x²) + eps) * weight
struct RmsNormLaunch {
  DType type;           // type of out
  const float* x;       // [rows, dim]
  const float* weight;  // [dim]
  void* out;            // [rows, dim]
  int rows;
  int64_t dim;
  float eps;
};
void launch_rms_norm(const RmsNormLaunch& launch, Stream stream);

// A norm of either kind (engine/program/program.h), also as a dependent launch.
struct NormLaunch {
  NormKind kind;
  DType type;           // type of out
  const float* x;       // [rows, dim]
  const float* weight;  // [dim]
  const float* bias;    // [dim] or nullptr
  void* out;            // [rows, dim]; may be x if type is F32
  int rows;
  int64_t dim;
  float eps;
  bool dependent = false;  // LinearShape's
};
void launch_norm(const NormLaunch& launch, Stream stream);

// out[row, i] = activation(gate + its bias) * (up + its bias). gate and up are in[row, 2 i] and
// in[row, 2 i + 1], or in[row, i] and in[row, cols + i].
struct GateLaunch {
  DType type;
  const void* in;     // [rows, 2 * cols]
  bool alternate;     // gate and up alternate in `in` and `bias`; false: all of gate comes first
  const float* bias;  // [2 * cols] or nullptr
  void* out;          // [rows, cols]
  int rows;
  int64_t cols;
  Activation activation;
};
void launch_gate(const GateLaunch& launch, Stream stream);

// out[row] += scale * bias, and then out = activation(out). `out` has `type`: float32 for the
// residual stream.
struct BiasLaunch {
  DType type;
  void* out;          // [rows, cols]
  const float* bias;  // [cols] or nullptr
  int rows;
  int64_t cols;
  float scale = 1;
  bool activates = false;
  Activation activation = Activation::Silu;
};
void launch_add_bias(const BiasLaunch& launch, Stream stream);

// x = activation(gate) * x. `gate` is another buffer.
struct GatedActLaunch {
  DType type;
  void* x;           // [count]
  const void* gate;  // [count]
  int64_t count;
  Activation activation;
  bool dependent = false;  // LinearShape's
};
void launch_gated_act(const GatedActLaunch& launch, Stream stream);

// Each row of x is multiplied by sigmoid(weight · its row of in).
struct RowGateLaunch {
  DType type;           // of x and in
  void* x;              // [rows, cols]
  const void* in;       // [rows, dim]
  const float* weight;  // [dim]
  int rows;
  int64_t cols, dim;
  bool dependent = false;  // LinearShape's
};
void launch_row_gate(const RowGateLaunch& launch, Stream stream);

// x = keep * x + scale * norm(in), and a copy of x in the activations' type.
struct PostNormLaunch {
  DType type;           // type of the copy
  const float* in;      // [rows, dim]
  const float* weight;  // [dim]
  float* x;             // [rows, dim]
  void* copy;           // [rows, dim], or nullptr: none
  int rows;
  int64_t dim;
  float eps, scale, keep = 1;
  bool dependent = false;  // LinearShape's
};
void launch_post_norm(const PostNormLaunch& launch, Stream stream);

// x = keep * x + scale * norm(a_norm(a) + b_norm(b)), with one eps.
struct SumOfNormsLaunch {
  const float *a, *b;                         // [rows, dim]
  const float *a_weight, *b_weight, *weight;  // [dim]
  float* x;                                   // [rows, dim]
  int rows;
  int64_t dim;
  float eps, scale, keep;
  bool dependent = false;  // LinearShape's
};
void launch_sum_of_norms(const SumOfNormsLaunch& launch, Stream stream);

// x = activation(x) * up, where `up` is a part of wider rows.
struct GatedPartLaunch {
  DType type;       // of x
  void* x;          // [rows, cols]
  const float* up;  // [rows, stride], from the part's first column on
  int rows;
  int64_t cols, stride;
  Activation activation;
  bool dependent = false;  // LinearShape's
};
void launch_gated_part(const GatedPartLaunch& launch, Stream stream);

// Copies the same columns of each head of each row. Float32 may be rounded to the other type.
struct CopyPartLaunch {
  // The place of a part: heads are `width` numbers apart, rows `stride`.
  struct Place {
    int64_t width, stride;
  };
  DType in_type, out_type;
  const void* in;  // from the first head's first column on
  void* out;       // the same
  int rows, heads;
  int64_t cols;  // of a head
  Place from, to;
  bool dependent = false;  // LinearShape's
};
void launch_copy_part(const CopyPartLaunch& launch, Stream stream);

// Norms a row's queries together and its keys together, in place. Without keys, k_cols is 0.
struct QkNormLaunch {
  DType type;
  void* qkv;                         // [rows, row_numbers]: q_cols of q, k_cols of k, then others
  const float *q_weight, *k_weight;  // [q_cols], [k_cols]
  int64_t q_cols, k_cols, row_numbers;
  int rows;
  float eps;
  bool dependent = false;
};
void launch_qk_norm(const QkNormLaunch& launch, Stream stream);

// to = x, in another type
void launch_to_type(DType type, const float* x, void* to, int64_t count, Stream stream);

// x = softcap * tanh(scale * x / softcap), or scale * x if softcap is 0
struct CapLaunch {
  float* x;
  int64_t count;
  float scale, softcap;
  bool dependent = false;
};
void launch_cap(const CapLaunch& launch, Stream stream);

// to[i] = from[rows[i]]
struct GatherLaunch {
  const float* from;    // [any, cols]
  const int32_t* rows;  // [count]
  float* to;            // [count, cols]
  int count;
  int64_t cols;
};
void launch_gather(const GatherLaunch& launch, Stream stream);

// Reads and sums all bytes, to measure bandwidth. `sums` has one element per block.
void launch_read(const void* data, int64_t bytes, unsigned* sums, int blocks, Stream stream);

}  // namespace skald::cuda
