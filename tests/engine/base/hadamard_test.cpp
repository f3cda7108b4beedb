#include "engine/base/hadamard.h"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace skald {
namespace {

std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(static_cast<size_t>(count));
  for (float& x : all) x = normal(random);
  return all;
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

TEST_CASE("a Hadamard block is the largest power of two that divides the dimension") {
  CHECK(hadamard_block(64) == 64);
  CHECK(hadamard_block(96) == 32);
  CHECK(hadamard_block(576) == 64);
  CHECK(hadamard_block(100) == 4);
  CHECK(hadamard_block(33) == 1);
}

TEST_CASE("the rotation multiplies by the orthonormal Hadamard matrix") {
  for (const int64_t dim : {1, 32, 64, 96, 576}) {
    CAPTURE(dim);
    const int64_t block = hadamard_block(dim);
    for (const int64_t column : {int64_t{0}, dim / 2, dim - 1}) {
      std::vector<float> x(static_cast<size_t>(dim));
      x[static_cast<size_t>(column)] = 1;
      rotate_hadamard(x.data(), dim);
      for (int64_t row = 0; row < dim; ++row) {
        const bool same = row / block == column / block;
        const auto common = static_cast<uint64_t>(row % block & column % block);
        const double sign = std::popcount(common) % 2 == 0 ? 1 : -1;
        const double expected = same ? sign / std::sqrt(static_cast<double>(block)) : 0;
        CHECK(x[static_cast<size_t>(row)] == Approx(expected).margin(1e-7));
      }
    }
  }
}

TEST_CASE("the rotation is its own inverse, and keeps scalar products") {
  for (const int64_t dim : {32, 96, 128, 256, 576}) {
    CAPTURE(dim);
    const std::vector<float> a = numbers(dim, 1), b = numbers(dim, 2);
    std::vector<float> rotated_a = a, rotated_b = b;
    rotate_hadamard(rotated_a.data(), dim);
    rotate_hadamard(rotated_b.data(), dim);
    CHECK(rotated_a != a);
    CHECK(dot(rotated_a, rotated_b) == Approx(dot(a, b)).margin(1e-4));
    rotate_hadamard(rotated_a.data(), dim);
    for (size_t i = 0; i < a.size(); ++i) CHECK(rotated_a[i] == Approx(a[i]).margin(2e-6));
  }
}

}  // namespace
}  // namespace skald
