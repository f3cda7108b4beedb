#include "engine/program/tensor.h"

#include "engine/base/error.h"

namespace skald {

TensorView slice_rows(TensorView view, int64_t first, int64_t count) {
  check(first >= 0 && count >= 0 && first + count <= view.rows, "rows lie within their matrix");
  if (view.data) view.data = view.row(first);
  view.rows = count;
  return view;
}

TensorView slice_cols(TensorView view, int64_t first, int64_t count) {
  check(first >= 0 && count >= 0 && first + count <= view.cols, "columns lie within their matrix");
  const int block = info(view.type).block_elems;
  check(first % block == 0 && count % block == 0, "a matrix is cut at the borders of its blocks");
  if (view.data) view.data += row_bytes(view.type, first);
  view.cols = count;
  return view;
}

}  // namespace skald
