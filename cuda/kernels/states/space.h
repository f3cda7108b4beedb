// State spaces (Mamba-2; engine/program/program.h, StateSpace) with the convolution before them and
// the gate and the norm of each group behind them. One row of each sequence: space_decode, then
// space_finish. Other steps: space_conv, the kernel of the table, space_finish. The plain kernels
// take any sizes.
//
// The state of a layer, for one sequence, is float32: the ring of the convolution's last inputs, as
// in states.h, then a matrix S [head_dim, state_dim] for each head.
//
// In a dependent launch space_decode reads the step table and the state before it waits. So the
// table must be complete before the kernel ahead starts, and the state before the step.
#pragma once

#include <cstdint>

#include "cuda/gpu/stream.h"
#include "cuda/kernels/kernel_id.h"
#include "cuda/kernels/rows_of_step.h"
#include "engine/program/specs.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

// The first columns of a row's parts. The row is the product that the layer begins with; `mixed`
// has values, keys and queries side by side.
struct SpaceColumns {
  int gate = 0, mixed = 0, step = 0;

  bool operator==(const SpaceColumns&) const = default;
};

struct SpaceShape {
  DType type;  // of rows
  SpaceSpec spec;
  SpaceColumns columns;
  int taps;             // of the convolution
  int64_t row_numbers;  // of a row of the product

  // Columns of all values, of all keys, and of the convolution.
  SKALD_HD int64_t values() const { return int64_t{spec.heads} * spec.head_dim; }
  SKALD_HD int64_t keys() const { return int64_t{spec.groups} * spec.state_dim; }
  SKALD_HD int64_t conv_cols() const { return values() + 2 * keys(); }
  SKALD_HD int64_t ring_floats() const { return taps * conv_cols(); }
  int64_t state_floats() const { return ring_floats() + spec.state_floats(); }
};

struct SpaceLaunch {
  SpaceShape shape;
  const void* in;                   // [rows, row_numbers]
  void* convolved;                  // [rows, conv_cols()]; scratch of all but space_decode
  void* out;                        // [rows, values()]
  const float* conv;                // [conv_cols(), taps]
  const float* conv_bias;           // [conv_cols()] or nullptr
  const float *rate, *bias, *skip;  // [heads]
  const float* norm;                // [values()]
  float norm_eps;
  bool log_rate;  // as in StateSpace
  int rows, sequences;
  StepTable step;
  float* states;        // this layer's, in slot 0
  int64_t slot_floats;  // from one slot to the next
  bool dependent;       // as LinearShape::dependent
};

// space_decode and space_rows: states of 64, 128 or 256 numbers a row, heads of a multiple of 32,
// four taps.
bool supports_space(const SpaceShape& shape);
// space_chunks: bf16, the same states, heads of a multiple of 16.
bool supports_space_chunks(const SpaceShape& shape);
inline bool any_space(const SpaceShape&) { return true; }

template <KernelId>
void launch_space(const SpaceLaunch& launch, Stream stream);

// The convolution of a prompt's rows.
void launch_space_conv(const SpaceLaunch& launch, Stream stream);
// out = norm(out * silu(gate)), in place; each group of heads is normed by itself. The last part of
// every kernel.
void launch_space_finish(const SpaceLaunch& launch, Stream stream);

}  // namespace skald::cuda
