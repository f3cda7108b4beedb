// Products of block formats with activations rounded to int8. Weights are unpacked to a form that
// all formats share: w = scale * (u - offset) + min with unsigned bytes u, for as many output rows
// at a time as a vector has lanes. Integer sums are exact. Every output is one lane that adds the
// scaled sums of its blocks in order, whatever the number of rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/quant/dtype.h"

namespace skald::cpu {

constexpr int64_t kInt8Block = 32;  // activations that share a scale

// Unpacked weights: `lanes` weight rows, a range of their columns.
struct PackedWeights {
  uint8_t* u;    // [k / 4, lanes, 4]
  float* scale;  // [k / sub_block, lanes]
  float* min;    // [k / sub_block, lanes]
};

// `lanes` weight rows as in the file.
struct BlockRows {
  const std::byte* data;
  int64_t stride;
  const std::byte* ahead;  // prefetch address: the rows read next; need not be readable
};

// Int8 activations, in planes.
struct Int8Rows {
  std::byte* x;    // [rows, k / 4, unit bytes]: four values in the order that the CPU needs
  float* scale;    // [rows, k / 32]
  int32_t* start;  // [rows, k / sub_block]: -offset * sum of values
  float* sum;      // [rows, k / sub_block]: scale * sum of values
  int64_t k;
};

struct Int8Format {
  DType type;
  int sub_block;  // weights with a common scale: 32 or 16
  bool has_min;
  int offset;
  // Unpacks `count` columns from column k on; both are multiples of the block.
  void (*unpack)(const BlockRows& rows, int64_t k, int64_t count, const PackedWeights& to);

  // The product of all columns with one row of activations; writes `lanes` floats. nullptr: one row
  // is multiplied like several, with the same result.
  void (*multiply_row)(const BlockRows& rows, const Int8Rows& x, float* out);

  int64_t packed_floats(int64_t k, int64_t lanes) const {  // size of PackedWeights, u first
    return k * lanes / 4 + (has_min ? 2 : 1) * (k / sub_block) * lanes;
  }
  PackedWeights cut(float* memory, int64_t k, int64_t lanes) const {
    float* scale = memory + k * lanes / 4;
    return {reinterpret_cast<uint8_t*>(memory), scale, scale + k / sub_block * lanes};
  }
};

struct Int8Product {
  const Int8Format* format;
  const float* panel;  // [groups] of packed weights for columns [k, k + count)
  int64_t groups;      // groups of `lanes` outputs
  Int8Rows x;
  int64_t rows, k, count;
  float* sums;  // [groups, rows, lanes]: partial sums between two ranges of columns
  float* out;   // [rows, out_stride], from the panel's first output; written with the last range
  int64_t out_stride, outs;
  const float* bias;  // [outs] or nullptr
};

struct Int8Kernels {
  int64_t lanes;
  int64_t unit;                           // bytes of four activations
  const Int8Format* (*find)(DType type);  // nullptr: the format has no int8 kernel
  // Quantizes blocks [from, end), numbered through all rows.
  void (*quantize)(const float* in, const Int8Format& format, const Int8Rows& to, int64_t from,
                   int64_t end);
  void (*product)(const Int8Product& p);
};

const Int8Kernels& int8_kernels();

}  // namespace skald::cpu
