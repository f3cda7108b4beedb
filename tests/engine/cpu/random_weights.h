// Random weights of every format together with their decoded values, for tests of matrix products.
// Scales keep the values near one.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

#include "engine/program/tensor.h"
#include "engine/quant/dtype.h"
#include "engine/selftest/random_blocks.h"

namespace skald::test {

inline std::vector<float> random_floats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

struct RandomWeights {
  TensorView view;  // at an odd address, because files promise no alignment
  std::vector<std::byte> bytes;
  std::vector<float> values;  // [rows, cols]

  RandomWeights(DType type, int64_t rows, int64_t cols, uint32_t seed) {
    const DTypeInfo& format = info(type);
    const int64_t stride = row_bytes(type, cols);
    bytes.resize(static_cast<size_t>(rows * stride + 1));
    view = {bytes.data() + 1, type, rows, cols, stride};
    std::mt19937 random(seed);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    for (int64_t at = 1; at < rows * stride; at += format.block_bytes) {
      selftest::set_scales(type, bytes.data() + at, random);
    }
    values.resize(static_cast<size_t>(rows * cols));
    for (int64_t r = 0; r < rows; ++r) {
      format.decode_row(view.row(r), values.data() + r * cols, cols);
    }
  }
  RandomWeights(const RandomWeights&) = delete;  // view points into bytes
};

}  // namespace skald::test
