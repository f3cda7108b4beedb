// What a quantized matrix becomes: rows in a format that skald computes with, read from the parts
// while a backend loads the matrix.
//
// Integers times scales become blocks of a GGUF format that holds them exactly: integers from -8 to
// 7 become Q4_0, from -16 to 15 Q5_0, from -128 to 127 Q8_0. Floats of 8 and 4 bits become FP8 and
// NVFP4. What no such format holds exactly becomes plain numbers: in the checkpoint's own type,
// each rounded once from its float32 value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/program/tensor.h"
#include "models/checkpoints/parts.h"

namespace skald {

// Gives a row's weights in float32. Any thread may call it.
class FloatRows {
 public:
  virtual ~FloatRows() = default;
  virtual void read_row(int64_t row, std::span<float> out) const = 0;
};

// Gives a row's integers, each less its zero point. Any thread may call it.
class IntegerRows {
 public:
  virtual ~IntegerRows() = default;
  virtual void read_row(int64_t row, std::span<int16_t> out) const = 0;
};

// The columns that share a scale and a zero point.
struct ColumnGroups {
  int64_t width = 1;  // columns of a group, if groups are runs of columns
  // The group of each column, if groups are no runs. Else empty.
  std::vector<int32_t> of = {};

  // Calls fn(group, first, end) for runs of columns that share a group.
  template <class Fn>
  void for_each_run(int64_t cols, const Fn& fn) const {
    for (int64_t first = 0, end = 0; first < cols; first = end) {
      if (of.empty()) {
        end = std::min(first + width, cols);
        fn(first / width, first, end);
      } else {
        end = first + 1;
        fn(int64_t{of[static_cast<size_t>(first)]}, first, end);
      }
    }
  }
  int64_t at(int64_t col) const { return of.empty() ? col / width : of[static_cast<size_t>(col)]; }
};

// Reads the group of each column from an I32 part. In order if all columns have the same number
// although there are several groups. Throws unless each group has `width` columns, the last one
// perhaps fewer.
ColumnGroups read_groups(const Part& part, int64_t groups, int64_t width);

// weight = scale × integer. The scale's place is row × row_step + group × group_step.
struct ScaledIntegers {
  std::unique_ptr<IntegerRows> rows;
  int low = 0, high = 0;  // the least and the greatest integer that may occur
  Numbers scales;
  int64_t row_step = 0, group_step = 0;
  ColumnGroups groups;

  float scale(int64_t row, int64_t group) const {
    return scales.at(row * row_step + group * group_step);
  }
};

// One of the three describes the weights, or `floats` and `blocks` do: FP8 and NVFP4.
struct QuantizedMatrix {
  int64_t rows = 0, cols = 0;
  std::unique_ptr<FloatRows> floats = {};
  std::optional<ScaledIntegers> integers = {};
  std::unique_ptr<RowReader> blocks = {};  // in block_type
  DType block_type = DType::F32;
};

// The smallest format that holds the matrix exactly; `plain` if none does.
DType exact_type(const QuantizedMatrix& matrix, DType plain);
// The format of two matrices that must have one: the wider format if both are of integers, else a
// plain one, for which `plain` is taken if neither is.
DType common_type(DType a, DType b, DType plain);
// Reads the matrix in `type`: exact_type(), or a common_type() of it.
std::unique_ptr<RowReader> reader_of(QuantizedMatrix matrix, DType type);

}  // namespace skald
