// A convolution over the last tokens between two gates: out = after * conv(before * x), each column
// by itself. Its state of a sequence is a ring of `taps` rows of before * x, in float32: row
// p % taps belongs to position p.
#pragma once

#include <cstdint>

#include "cuda/gpu/stream.h"
#include "cuda/kernels/rows_of_step.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

// Where the thirds of a row begin.
struct ShortConvColumns {
  int before = 0, after = 0, x = 0;

  bool operator==(const ShortConvColumns&) const = default;
};

struct ShortConvLaunch {
  DType type;         // of in and out
  const void* in;     // [rows, row_numbers]
  void* out;          // [rows, cols]
  const float* conv;  // [cols, taps]
  ShortConvColumns columns;
  int64_t cols, row_numbers;
  int taps;
  int rows, sequences;
  // One row of each sequence: the same launch keeps the row in the ring. Otherwise
  // short_conv_keep does, once no block reads the older rows any more.
  bool one_row_each;
  StepTable step;
  float* states;        // this layer's, in slot 0
  int64_t slot_floats;  // from one slot to the next
  bool dependent;       // as LinearShape::dependent
};
void launch_short_conv(const ShortConvLaunch& launch, Stream stream);
void launch_short_conv_keep(const ShortConvLaunch& launch, Stream stream);

}  // namespace skald::cuda
