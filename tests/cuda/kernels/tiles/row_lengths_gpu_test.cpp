// The row lengths that the GPU finds, compared with those of the same rows expanded to bf16; and
// the bound that follows from them.
#include <bit>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "cuda/gpu/check.h"
#include "cuda/kernels/tiles/expand_q.h"
#include "cuda/kernels/tiles/row_lengths.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/random_tiles.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory, cuda::RowLengths;

TEST_CASE("rows of a quantized matrix are as long as the expanded ones", "[small]") {
  constexpr int64_t kOuts = 72, kIns = 768;
  const DType format = GENERATE(DType::Q4_K, DType::Q8_0, DType::Q6_K, DType::IQ4_NL, DType::Q3_K);
  INFO(name(format));
  std::mt19937 random(5);
  const DeviceMemory tiles = random_tiles(format, kOuts, kIns, random);
  std::vector<float> weight(kIns);
  for (float& w : weight) w = std::ldexp(1.0f, static_cast<int>(random() % 5) - 2);
  const DeviceMemory weights = on_device(weight), counted = on_device(std::vector<int32_t>(256));
  DeviceMemory expanded(kOuts * kIns * 2, "a test");
  cuda::launch_row_lengths(
      {format, tiles.as<void>(), kOuts, kIns, weights.as<const float>(), counted.as<int32_t>()},
      nullptr);
  cuda::launch_expand_q(
      {format, tiles.as<void>(), kIns, 0, kOuts, DType::BF16, expanded.as<void>()}, nullptr);
  RowLengths lengths, expected = {};
  std::vector<uint16_t> rows(kOuts * kIns);
  SKALD_CUDA(cudaMemcpy(&lengths, counted.as<void>(), sizeof lengths, cudaMemcpyDeviceToHost));
  SKALD_CUDA(cudaMemcpy(rows.data(), expanded.as<void>(), rows.size() * 2, cudaMemcpyDeviceToHost));
  for (int64_t row = 0; row < kOuts; ++row) {
    double squares = 0;
    for (int64_t col = 0; col < kIns; ++col) {
      const auto bits = uint32_t{rows[static_cast<size_t>(row * kIns + col)]} << 16;
      const double x = std::bit_cast<float>(bits) * weight[static_cast<size_t>(col)];
      squares += x * x;
    }
    ++expected[std::bit_cast<uint32_t>(static_cast<float>(std::sqrt(squares))) >> 23];
  }
  int apart = 0;
  for (size_t i = 0; i < lengths.size(); ++i) apart += std::abs(lengths[i] - expected[i]);
  CHECK(apart <= 2);  // one row's length may round to a power of two
}

TEST_CASE("a row much longer than usual ones means that products have no bound") {
  RowLengths lengths = {};
  lengths[120] = 50, lengths[124] = 49;  // lengths from 2^-7 on, and from 2^-3 on
  CHECK(cuda::longest_row(lengths) == 0.25f);
  SECTION("one more power of two") {
    lengths[125] = 1;
    CHECK(cuda::longest_row(lengths) == cuda::kNoBound);
  }
  SECTION("most are longer") {
    lengths[124] = 51, lengths[125] = 1;
    CHECK(cuda::longest_row(lengths) == 0.5f);
  }
  SECTION("infinitely long") {
    lengths = {};
    lengths[255] = 100;
    CHECK(cuda::longest_row(lengths) == cuda::kNoBound);
  }
}

}  // namespace
}  // namespace skald::test
