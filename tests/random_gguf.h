// A GGUF with random tensors, for models that a test makes.
#pragma once

#include <cmath>
#include <random>
#include <string>

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
    vector(name, rows * cols, [&] { return size * normal_(random_); });
    w_.tensors.back().dims = {cols, rows};
  }

  GgufWriter w_;
  std::mt19937_64 random_{7};
  std::normal_distribution<float> normal_;
};

}  // namespace skald::test
