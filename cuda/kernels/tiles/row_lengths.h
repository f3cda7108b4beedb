// How long a quantized matrix's rows are, from which follows how large their products with a normed
// row may be: known before anything is computed, so that such products can be left in 16 bits.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/kernels/launch.h"

namespace skald::cuda {

// Rows by the exponent bits of their length as a float.
using RowLengths = std::array<int32_t, 256>;

struct RowLengthsLaunch {
  DType format;       // a block format
  const void* tiles;  // the whole matrix (kernels/tiles/layout.h)
  int64_t outs, ins;
  const float* weight;  // [ins], that columns are multiplied by
  int32_t* lengths;     // [256], RowLengths that grow by the matrix's rows
};
// Numbers are rounded to bf16.
void launch_row_lengths(const RowLengthsLaunch& launch, Stream stream);

// What no row is longer than, a power of two. None where a row is so much longer than usual ones
// that numbers of f16's range would have too few bits for what these give: 16 times, or infinitely.
inline constexpr float kNoBound = 0;
float longest_row(const RowLengths& lengths);

}  // namespace skald::cuda
