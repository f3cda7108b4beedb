// TensorView: a matrix somewhere in memory, row after row. It never owns and never frees.
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
  int64_t row_bytes = 0;

  const std::byte* row(int64_t r) const { return data + r * row_bytes; }
  int64_t bytes() const { return rows * row_bytes; }
};

}  // namespace skald
