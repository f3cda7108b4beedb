// Tensors that are computed from a model's tensors: in another format, or with rows in another
// order where two file formats differ. They are made in slices of rows, so only a slice needs to be
// in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/program/tensor.h"

namespace skald {

struct MadeTensor {
  std::string name;
  std::vector<int64_t> shape;      // outermost first
  DType type = DType::F32;         // target format: one with an encoder, or the source's format
  TensorView source;               // borrowed; without data if `values` is used
  std::vector<float> values = {};  // a single row, whatever the shape
  // If the source has separate tensors and the target stacks them: all of them, equal in format and
  // shape. `source` is the first.
  std::vector<TensorView> stack = {};
  // The source's row of each row, and its column of each column, where the target has another order
  // or only a part of them. Empty: the same rows, the same columns. A stack has no order of rows.
  std::vector<int32_t> row_order = {}, col_order = {};
  float added = 0;        // added to each weight
  std::string file = {};  // file of the source, for messages
  // DTypeInfo::encode_row's importances of each column. Several rows of them belong to equally many
  // parts of the tensor, as those of its experts. nullptr: none.
  std::shared_ptr<const std::vector<float>> importances = {};

  int64_t rows() const {
    if (!values.empty()) return 1;
    if (!row_order.empty()) return std::ssize(row_order);
    return source.rows * std::max<int64_t>(1, std::ssize(stack));
  }
  int64_t cols() const { return values.empty() ? shape.back() : std::ssize(values); }
  int64_t elements() const { return rows() * cols(); }
  int64_t bytes() const { return rows() * row_bytes(type, cols()); }
  // The view that holds the source of a row, and the row's number there.
  struct SourceRow {
    const TensorView& view;
    int64_t row;
  };
  SourceRow source_row(int64_t row) const {
    if (!row_order.empty()) return {source, row_order[static_cast<size_t>(row)]};
    if (stack.empty()) return {source, row};
    return {stack[static_cast<size_t>(row / source.rows)], row % source.rows};
  }
  const float* importances_of(int64_t row) const {
    if (!importances) return nullptr;
    const int64_t parts = std::ssize(*importances) / cols();
    return importances->data() + row / (rows() / parts) * cols();
  }
  // Lets the system drop the mapped pages of `rows` source rows; a reader's pages stay. Pages that
  // are still needed, as those of rows in another order, are read again.
  void drop_source(int64_t first, int64_t rows) const;
  // True if the bytes are equal to the source's, except for their order.
  bool copied() const { return values.empty() && source.type == type && added == 0; }
};

namespace cpu {
class ThreadPool;
}

// Makes tensors on its own threads. The result does not depend on the number of threads.
class TensorMaker {
 public:
  explicit TensorMaker(int threads);  // 0: all cores
  ~TensorMaker();

  // Makes `rows` rows from row `first` on. Throws Error(Exit::Model) if the format cannot hold a
  // weight: infinite, NaN, or too large.
  void make(const MadeTensor& tensor, int64_t first, int64_t rows, std::byte* out);

 private:
  std::unique_ptr<cpu::ThreadPool> pool_;
};

}  // namespace skald
