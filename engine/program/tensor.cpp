#include "engine/program/tensor.h"

#include <cstring>

#include "engine/base/error.h"

namespace skald {

void TensorView::copy_row(int64_t r, std::byte* out) const {
  if (reader && whole_cols == 0) return reader->read_row(first_row + r, out);
  std::vector<std::byte> whole;
  std::memcpy(out, row(r, whole), static_cast<size_t>(own_row_bytes()));
}

const std::byte* TensorView::row(int64_t r, std::vector<std::byte>& scratch) const {
  if (!reader) return row(r);
  const int64_t all = whole_cols > 0 ? skald::row_bytes(type, whole_cols) : own_row_bytes();
  scratch.resize(static_cast<size_t>(all));
  reader->read_row(first_row + r, scratch.data());
  return scratch.data() + skald::row_bytes(type, first_col);
}

void TensorView::decode_row(int64_t r, float* out, std::vector<std::byte>& scratch) const {
  info(type).decode_row(row(r, scratch), out, cols);
}

TensorView slice_rows(TensorView view, int64_t first, int64_t count) {
  check(first >= 0 && count >= 0 && first + count <= view.rows, "rows lie within their matrix");
  if (view.data) view.data = view.row(first);
  if (view.reader) view.first_row += first;
  view.rows = count;
  return view;
}

TensorView slice_cols(TensorView view, int64_t first, int64_t count) {
  check(first >= 0 && count >= 0 && first + count <= view.cols, "columns lie within their matrix");
  const int block = info(view.type).block_elems;
  check(first % block == 0 && count % block == 0, "a matrix is cut at the borders of its blocks");
  if (view.data) view.data += row_bytes(view.type, first);
  if (view.reader) {
    if (view.whole_cols == 0) view.whole_cols = view.cols;
    view.first_col += first;
  }
  view.cols = count;
  return view;
}

}  // namespace skald
