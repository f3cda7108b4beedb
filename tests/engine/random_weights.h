// Random weights of every format, with scales that keep values near one, and the plain numbers
// behind them; for tests of matrix products.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

#include "engine/dtype.h"
#include "engine/quant/half.h"
#include "engine/tensor.h"

namespace skald::test {

inline std::vector<float> random_floats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

struct RandomWeights {
  TensorView view;  // at an odd address: files promise no alignment
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
      set_scales(type, bytes.data() + at, random);
    }
    values.resize(static_cast<size_t>(rows * cols));
    for (int64_t r = 0; r < rows; ++r) {
      format.decode_row(view.row(r), values.data() + r * cols, cols);
    }
  }
  RandomWeights(const RandomWeights&) = delete;  // view points into bytes

 private:
  static void set_scales(DType type, std::byte* block, std::mt19937& random) {
    std::normal_distribution<float> normal;
    const auto f16 = [&](int offset, float size) {
      const uint16_t bits = f32_to_f16(size * normal(random));
      std::memcpy(block + offset, &bits, sizeof bits);
    };
    switch (type) {
      case DType::F32: {
        const float value = normal(random);
        std::memcpy(block, &value, sizeof value);
        break;
      }
      case DType::BF16: {
        const uint16_t bits = f32_to_bf16(normal(random));
        std::memcpy(block, &bits, sizeof bits);
        break;
      }
      case DType::F16:
        f16(0, 1);
        break;
      case DType::Q8_0:
      case DType::IQ4_NL:
        f16(0, 0.01f);
        break;
      case DType::Q4_0:
      case DType::Q5_0:
        f16(0, 0.1f);
        break;
      case DType::Q4_1:
      case DType::Q5_1:
        f16(0, 0.1f), f16(2, 1);
        break;
      case DType::Q2_K:
        f16(80, 0.05f), f16(82, 0.1f);
        break;
      case DType::Q3_K:
        f16(108, 0.02f);
        break;
      case DType::Q4_K:
      case DType::Q5_K:
        f16(0, 0.005f), f16(2, 0.02f);
        break;
      case DType::Q6_K:
        f16(208, 0.001f);
        break;
      case DType::IQ4_XS:
        f16(0, 0.001f);
        break;
      case DType::MXFP4:
        *block = static_cast<std::byte>(124 + random() % 4);
        break;
    }
  }
};

}  // namespace skald::test
