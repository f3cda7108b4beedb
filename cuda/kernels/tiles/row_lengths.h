// The lengths of a quantized matrix's rows, found at loading. The longest row bounds the product of
// every row with a normed activation row. So a kernel can store such products in f16 with a power
// of two that is known beforehand.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/gpu/stream.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

// Entry e counts the rows whose length, as a float, has the exponent bits e.
using RowLengths = std::array<int32_t, 256>;

struct RowLengthsLaunch {
  DType format;       // a block format
  const void* tiles;  // the whole matrix (kernels/tiles/layout.h)
  int64_t outs, ins;
  const float* weight;  // [ins]; column i is multiplied by weight[i]
  int32_t* lengths;     // [256], RowLengths; each row of the matrix adds one
};
// Weights are rounded to bf16 before they are squared.
void launch_row_lengths(const RowLengthsLaunch& launch, Stream stream);

// A power of two that no row's length exceeds. kNoBound if the longest row is infinite or more than
// 16 times longer than the median: then f16 would keep too few bits of usual results.
inline constexpr float kNoBound = 0;
float longest_row(const RowLengths& lengths);

}  // namespace skald::cuda
