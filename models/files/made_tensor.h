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
  std::vector<int64_t> shape;  // outermost first
  DType type = DType::F32;     // target format: one with an encoder, or the source's format
  TensorView source;           // borrowed; without data if `values` is used
  std::vector<float> values = {};
  // If the source has separate tensors and the target stacks them: all of them, equal in format and
  // shape. `source` is the first.
  std::vector<TensorView> stack = {};
  // Number of heads whose rows (of a bias: elements) are reordered from Hugging Face's layout, in
  // which rotated pairs are (i, i + n/2), to pairs (2i, 2i + 1). 0: not reordered.
  int interleaved_heads = 0;
  float added = 0;        // added to each weight
  std::string file = {};  // file of the source, for messages

  int64_t rows() const {
    if (!values.empty()) return 1;
    return source.rows * std::max<int64_t>(1, std::ssize(stack));
  }
  int64_t cols() const { return shape.back(); }
  int64_t elements() const { return rows() * cols(); }
  int64_t bytes() const { return rows() * row_bytes(type, cols()); }
  // The view that holds a row of the source, and the row's number there.
  struct SourceRow {
    const TensorView& view;
    int64_t row;
  };
  SourceRow source_row(int64_t row) const {
    if (stack.empty()) return {source, row};
    return {stack[static_cast<size_t>(row / source.rows)], row % source.rows};
  }
  // Lets the system drop the mapped pages of `rows` source rows; a reader's pages stay.
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
