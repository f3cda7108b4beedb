// A GGUF with random tensors, for models that a test makes.
#pragma once

#include <cmath>
#include <random>
#include <string>

#include "engine/base/half.h"
#include "tests/gguf_writer.h"

namespace skald::test {

class RandomGguf {
 protected:
  template <class Next>
  void vector(const std::string& name, uint64_t count, const Next& next) {
    std::string data;
    for (uint64_t i = 0; i < count; ++i) data += raw<float>(next());
    w_.tensors.push_back({name, {count}, 0, data});
  }
  void ones(const std::string& name, uint64_t count) {
    vector(name, count, [] { return 1.0f; });
  }
  void tensor(const std::string& name, uint64_t rows, uint64_t cols) {
    const float size = 1.5f / std::sqrt(static_cast<float>(cols));
    const auto next = [&] { return size * normal_(random_); };
    vector(name, bf16_ ? 0 : rows * cols, next);
    GgufWriter::Tensor& tensor = w_.tensors.back();
    tensor.dims = {cols, rows};
    if (!bf16_) return;
    constexpr uint32_t kBf16 = 30;  // GGUF's number of the type
    tensor.type = kBf16;
    for (uint64_t i = 0; i < rows * cols; ++i) tensor.data += raw(f32_to_bf16(next()));
  }

  GgufWriter w_;
  bool bf16_ = false;  // matrices are bf16, else float32
  std::mt19937_64 random_{7};
  std::normal_distribution<float> normal_;
};

}  // namespace skald::test
