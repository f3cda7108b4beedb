// TensorView: a matrix somewhere in memory, row after row. It never owns and never frees memory. It
// may be a part of a larger matrix: a range of its rows, of its columns, or of both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/quant/dtype.h"

namespace skald {

struct TensorView {
  const std::byte* data = nullptr;  // [rows, cols]; may be unaligned
  DType type = DType::F32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_bytes = 0;  // from one row to the next: at least own_row_bytes()

  const std::byte* row(int64_t r) const { return data + r * row_bytes; }
  // The bytes of a row's numbers. Further bytes up to the next row belong to a larger matrix.
  int64_t own_row_bytes() const { return skald::row_bytes(type, cols); }
  int64_t bytes() const { return rows * own_row_bytes(); }
};

// `count` rows, or columns, from `first` on. Columns of a block format are cut at block borders.
// A view without data has none afterwards.
TensorView slice_rows(TensorView view, int64_t first, int64_t count);
TensorView slice_cols(TensorView view, int64_t first, int64_t count);

}  // namespace skald
