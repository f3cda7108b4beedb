// Tensors that are made from a model's: in another format, and where two file kinds lay one out
// differently, in another order. Made a slice of rows at a time, so that a slice is all that need
// be in memory.
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
  DType type = DType::F32;     // that it is to have; one with an encoder, or the source's own
  TensorView source;           // borrowed; of no data where `values` are the tensor
  std::vector<float> values = {};
  // Where tensors that lie apart are stacked: all of them, alike in format and shape; source is the
  // first.
  std::vector<TensorView> stack = {};
  // Rows (of a bias: elements) of each of so many heads go from the order of Hugging Face, whose
  // rotated pairs are (i, i + n/2), to (2i, 2i + 1). 0: as they are.
  int interleaved_heads = 0;
  float added = 0;        // to each weight
  std::string file = {};  // of the source, for messages

  int64_t rows() const {
    if (!values.empty()) return 1;
    return source.rows * std::max<int64_t>(1, std::ssize(stack));
  }
  int64_t cols() const { return shape.back(); }
  int64_t elements() const { return rows() * cols(); }
  int64_t bytes() const { return rows() * row_bytes(type, cols()); }
  const std::byte* source_row(int64_t row) const {
    return stack.empty() ? source.row(row)
                         : stack[static_cast<size_t>(row / source.rows)].row(row % source.rows);
  }
  // Has the system drop the pages of `rows` rows of a mapped source.
  void drop_source(int64_t first, int64_t rows) const;
  // Whether its bytes are the source's.
  bool copied() const { return values.empty() && source.type == type && added == 0; }
};

namespace cpu {
class ThreadPool;
}

// Has the threads. The result does not depend on their number.
class TensorMaker {
 public:
  explicit TensorMaker(int threads);  // 0: all
  ~TensorMaker();

  // `rows` rows from `first` on. Throws Error(Exit::Model) for weights that the format cannot hold:
  // infinite, not a number, or too large.
  void make(const MadeTensor& tensor, int64_t first, int64_t rows, std::byte* out);

 private:
  std::unique_ptr<cpu::ThreadPool> pool_;
};

}  // namespace skald
