// TensorView: a matrix somewhere in memory, row after row. It never owns and never frees memory. It
// may be a part of a larger matrix: a range of its rows, of its columns, or of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/quant/dtype.h"

namespace skald {

// Gives the rows of a matrix that lies nowhere in memory as such: its file has the numbers in
// another order, or scales apart from the numbers. Any thread may call it.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual void read_row(int64_t row, std::byte* out) const = 0;
};

struct TensorView {
  const std::byte* data = nullptr;  // [rows, cols]; may be unaligned; null if there is a reader
  DType type = DType::F32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_bytes = 0;  // from one row to the next: at least own_row_bytes()

  const RowReader* reader = nullptr;  // borrowed
  int64_t first_row = 0;              // the reader's number of the view's first row
  // A part of the reader's rows, which have whole_cols numbers. whole_cols = 0: all of them.
  int64_t first_col = 0, whole_cols = 0;

  bool exists() const { return data || reader; }
  // Only a view without a reader has rows at an address.
  const std::byte* row(int64_t r) const { return data + r * row_bytes; }
  // The address of a row's numbers, which are read into `scratch` if there is a reader.
  const std::byte* row(int64_t r, std::vector<std::byte>& scratch) const;
  // Copies a row's numbers, own_row_bytes().
  void copy_row(int64_t r, std::byte* out) const;
  // Decodes a row's numbers to float32. `scratch` is used if there is a reader.
  void decode_row(int64_t r, float* out, std::vector<std::byte>& scratch) const;
  // The bytes of a row's numbers. Further bytes up to the next row belong to a larger matrix.
  int64_t own_row_bytes() const { return skald::row_bytes(type, cols); }
  int64_t bytes() const { return rows * own_row_bytes(); }
};

// `count` rows, or columns, from `first` on. Columns of a block format are cut at block borders.
// A view without data has none afterwards. A reader still reads whole rows.
TensorView slice_rows(TensorView view, int64_t first, int64_t count);
TensorView slice_cols(TensorView view, int64_t first, int64_t count);

}  // namespace skald
