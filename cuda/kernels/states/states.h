// Gated delta nets: the layers whose memory is a matrix instead of a cache
// (engine/program/program.h, DeltaNet). delta_decode takes one row of each sequence in one launch.
// For other steps there are three launches: delta_conv, delta_rows, delta_finish. delta_chunks has
// two in delta_rows' place. The plain kernels take any sizes, in three launches.
//
// The state of a layer, for one sequence, is float32: the last inputs of the convolution, then a
// matrix S for each value head. The inputs lie in a ring of `taps` rows: row p % taps belongs to
// position p. So a step writes its row into a place that no block of the same step reads.
//
// In a dependent launch delta_decode reads the step table and the state before it waits. So the
// table must be complete before the kernel ahead starts, and the state before the step.
#pragma once

#include <cstdint>

#include "cuda/gpu/stream.h"
#include "cuda/kernels/kernel_id.h"
#include "cuda/kernels/rows_of_step.h"
#include "engine/program/specs.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

// Where the heads of one kind lie in a row. A head of keys and the heads of values that share it
// are a group. Head m of group g begins at column first + g * group + m * member.
struct HeadColumns {
  int first = 0, group = 0, member = 0;

  SKALD_HD int of(int g, int m) const { return first + g * group + m * member; }
  bool operator==(const HeadColumns&) const = default;
};

// A row of the product that the layer begins with. `gate` is what the result is gated with.
struct DeltaColumns {
  HeadColumns query, key, value, gate, beta, decay;

  bool operator==(const DeltaColumns&) const = default;
};

// A value head's group, and its number in the group.
struct DeltaHead {
  int group, member;

  SKALD_HD static DeltaHead of(const DeltaSpec& spec, int head) {
    const int shared = spec.value_heads / spec.key_heads;
    if (spec.order == HeadOrder::Blocks) return {head / shared, head % shared};
    return {head % spec.key_heads, head / spec.key_heads};
  }
};

struct DeltaShape {
  DType type;  // of rows
  DeltaSpec spec;
  DeltaColumns columns;
  int taps;             // of the convolution
  int64_t row_numbers;  // of a row of the product

  // Columns of all keys, of all values, and of the convolution.
  SKALD_HD int64_t keys() const { return int64_t{spec.key_heads} * spec.key_dim; }
  SKALD_HD int64_t values() const { return int64_t{spec.value_heads} * spec.value_dim; }
  SKALD_HD int64_t conv_cols() const { return 2 * keys() + values(); }
  SKALD_HD int64_t ring_floats() const { return taps * conv_cols(); }
  int64_t state_floats() const { return ring_floats() + spec.state_floats(); }
};

struct DeltaLaunch {
  DeltaShape shape;
  const void* in;     // [rows, row_numbers]
  void* convolved;    // [rows, conv_cols()]: all queries, all keys, all values; scratch of prompts
  void* out;          // [rows, spec.values()]
  float* factors;     // scratch of delta_chunks: delta_factor_floats()
  const float* conv;  // [conv_cols(), taps]
  const float* rate;  // [value_heads]
  const float* bias;  // [value_heads]
  const float* norm;  // [value_dim]: weights of the norm of each head of the result
  float norm_eps;
  bool log_rate;  // as in DeltaNet
  int rows, sequences;
  StepTable step;
  float* states;        // this layer's, in slot 0
  int64_t slot_floats;  // from one slot to the next
  bool dependent;       // as LinearShape::dependent
};

// The kernels that delta_decode and delta_rows have: powers of two that a warp can share.
bool supports_delta(const DeltaShape& shape);
inline bool any_delta(const DeltaShape&) { return true; }
// delta_chunks: bf16, keys of 64 or 128 numbers, values of a multiple of 16.
bool supports_delta_chunks(const DeltaShape& shape);

// delta_chunks divides a sequence's rows of a step into chunks of this many, from the first on.
inline constexpr int kDeltaChunkRows = 16;
// A chunk has, for each head, two matrices [16, 16] and 16 numbers.
inline constexpr int kDeltaFactorFloats = 2 * 16 * 16 + 16;
// Room for the most chunks that `rows` rows of `sequences` sequences can make.
int64_t delta_factor_floats(const DeltaShape& shape, int64_t rows, int64_t sequences);

template <KernelId>
void launch_delta(const DeltaLaunch& launch, Stream stream);

// The parts of a step that is no decode. The convolution also scales queries and keys to their
// lengths; delta_conv_plain leaves that to delta_plain.
void launch_delta_conv(const DeltaLaunch& launch, Stream stream);
void launch_delta_conv_plain(const DeltaLaunch& launch, Stream stream);
// DeltaLaunch::factors, from the convolution's rows.
void launch_delta_chunk_factors(const DeltaLaunch& launch, Stream stream);
// out = norm(out) * silu(gate), in place. The last part of every kernel of prompts.
void launch_delta_finish(const DeltaLaunch& launch, Stream stream);

}  // namespace skald::cuda
