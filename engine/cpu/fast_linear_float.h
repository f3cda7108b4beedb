// Products with float weights: F32, F16 or BF16 rows as in the file, or rows of another format that
// were decoded before (convert() decodes some of them fast). Every output is one vector accumulator
// over k and one fixed sum of its lanes, whatever the number of rows. Therefore results do not
// depend on how a call is split.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/quant/dtype.h"

namespace skald::cpu {

struct FloatProduct {
  DType type;          // F32, F16, BF16
  const std::byte* w;  // [outs, k]
  int64_t w_stride;    // bytes
  const float* x;      // [rows, k]
  int64_t x_stride;    // floats
  const float* bias;   // [outs] or nullptr
  float* out;          // [rows, outs]
  int64_t out_stride;  // floats
  int64_t outs, rows, k;
  float* sums;  // workspace of sums_floats(outs) floats; nullptr: one sweep over all k columns
};

struct FloatKernels {
  void (*product)(const FloatProduct& p);
  // Decodes a part of a row. The type has has_float_weights() and is not F32.
  void (*convert)(DType type, const std::byte* from, float* to, int64_t count);
  int64_t (*sums_floats)(int64_t outs);
  int64_t tile_rows;  // rows of x that share one read of the weights
  int64_t depth;      // columns per sweep if `sums` is given
};

const FloatKernels& float_kernels();

}  // namespace skald::cpu
