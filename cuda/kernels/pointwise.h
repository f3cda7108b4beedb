// The small kernels between products and attention. Rows are a grid's x, where there is no limit
// that a step could reach.
#pragma once

#include "cuda/kernels/launch.h"

namespace skald::cuda {

// x[row] = weight[tokens[row]]
struct EmbedLaunch {
  DType type;
  const void* weight;     // [vocab, dim]
  const int32_t* tokens;  // [rows]
  float* x;               // [rows, dim]
  int rows;
  int64_t dim;
};
void launch_embed(const EmbedLaunch& launch, Stream stream);

struct NormLaunch {
  DType type;           // of out
  const float* x;       // [rows, dim]
  const float* weight;  // [dim]
  void* out;            // [rows, dim]
  int rows;
  int64_t dim;
  float eps;
};
void launch_rms_norm(const NormLaunch& launch, Stream stream);

// out[row, i] = activation(gate + its bias) * (up + its bias), of in[row, 2 i] and the next, or of
// in[row, i] and in[row, cols + i]
struct GateLaunch {
  DType type;
  const void* in;     // [rows, 2 * cols]
  bool alternate;     // gate and up do, in `in` and `bias`; else all of gate comes first
  const float* bias;  // [2 * cols] or nullptr
  void* out;          // [rows, cols]
  int rows;
  int64_t cols;
  Activation activation;
};
void launch_gate(const GateLaunch& launch, Stream stream);

// out[row] += bias; out of `type`, or of float where it is the residual stream
void launch_add_bias(DType type, void* out, const float* bias, int rows, int64_t cols,
                     Stream stream);

// to[i] = from[rows[i]], float
void launch_gather(const float* from, const int32_t* rows, float* to, int count, int64_t cols,
                   Stream stream);

// Sums all bytes, for the read bandwidth. `sums` has one element a block.
void launch_read(const void* data, int64_t bytes, unsigned* sums, int blocks, Stream stream);

}  // namespace skald::cuda
