// What a quantized matrix becomes: rows in a format that skald computes with, read from the parts
// while a backend loads the matrix.
//
// Integers times scales become blocks of a GGUF format that holds them exactly: numbers from -8 to
// 7 Q4_0, from -16 to 15 Q5_0, from -128 to 127 Q8_0. What no such format holds exactly becomes
// plain numbers: in the checkpoint's own type, each rounded once from its float32 value.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/program/tensor.h"
#include "models/checkpoints/parts.h"

namespace skald {

struct QuantizedMatrix {
  DType type = DType::F32;
  int64_t rows = 0, cols = 0;
  std::unique_ptr<RowReader> reader;
};

// Gives a row's weights in float32. Any thread may call it.
class FloatRows {
 public:
  virtual ~FloatRows() = default;
  virtual void read_row(int64_t row, std::span<float> out) const = 0;
};
QuantizedMatrix plain_rows(std::unique_ptr<FloatRows> floats, int64_t rows, int64_t cols,
                           DType plain);

// Gives a row's integers, each less its zero point. Any thread may call it.
class IntegerRows {
 public:
  virtual ~IntegerRows() = default;
  virtual void read_row(int64_t row, std::span<int16_t> out) const = 0;
};

// weight = scale × integer. The scale's place is row × row_step + group × group_step.
struct ScaledIntegers {
  int64_t rows = 0, cols = 0;
  std::unique_ptr<IntegerRows> integers;
  int low = 0, high = 0;  // the least and the greatest integer that may occur
  Numbers scales;
  int64_t row_step = 0, group_step = 0;
  int64_t group = 1;  // columns of a group
  // The group of each column, if groups are no runs of columns. Else empty.
  std::vector<int32_t> group_of = {};

  float scale(int64_t row, int64_t col) const {
    const int64_t g = group_of.empty() ? col / group : group_of[static_cast<size_t>(col)];
    return scales.at(row * row_step + g * group_step);
  }
};
QuantizedMatrix scaled_rows(ScaledIntegers matrix, DType plain);

// Reads the group of each column from an I32 part, for group_of. Empty if the groups are runs of
// `group` columns in their order, or if the part says so by -1 in each column.
std::vector<int32_t> column_groups(const Part& part, int64_t groups, int64_t group);

}  // namespace skald
