// Matrices that are joined from weights of several kinds: blocks that the file has, and floats that
// become blocks while they are loaded.
#include "cuda/load/weights.h"

#include <cstring>
#include <random>

#include "cuda/gpu/check.h"
#include "cuda/plan/fused_program.h"
#include "cuda/plan/tile_pack.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes encoded(DType type, const std::vector<float>& values) {
  Bytes bytes(static_cast<size_t>(row_bytes(type, std::ssize(values))));
  info(type).encode_row(values.data(), bytes.data(), std::ssize(values), nullptr);
  return bytes;
}

std::vector<float> decoded(DType type, const Bytes& bytes, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  info(type).decode_row(bytes.data(), values.data(), count);
  return values;
}

// A weight of `cols` columns in type `type`: made of `source`, or as the file has it if both are
// the same.
struct Part {
  DType type, source;
  int64_t rows;
  Bytes data = {};
  Weight weight = {};

  void fill(int64_t cols, std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (float& value : values) value = 0.001f * normal(random);
    data = encoded(source, values);
    weight.view = {nullptr, type, rows, cols, row_bytes(type, cols)};
    const TensorView there = {data.data(), source, rows, cols, row_bytes(source, cols)};
    (type == source ? weight.view : weight.source) = there;
  }
  // The blocks that the host makes of it.
  Bytes made() const {
    return type == source ? data : encoded(type, decoded(source, data, rows * weight.view.cols));
  }
};

void check_matrix(DType format, std::vector<Part> parts, int64_t cols, bool alternate) {
  std::mt19937 random(5);
  cuda::JoinedRows joined;
  joined.alternate = alternate;
  std::vector<Bytes> made;
  int64_t outs = 0;
  for (Part& part : parts) {
    part.fill(cols, random);
    outs += part.rows;
  }
  for (const Part& part : parts) {
    joined.parts.push_back(part.weight);
    made.push_back(part.made());
  }
  // The expected matrix, row by row, as plain rows of `format`.
  Bytes expected;
  for (int64_t row = 0; row < outs; ++row) {
    const cuda::JoinedRows::Place place = joined.at(row);
    size_t part = 0;
    while (&joined.parts[part] != place.part) ++part;
    const DType type = parts[part].type;
    const int64_t bytes = row_bytes(type, cols);
    Bytes one(made[part].begin() + place.row * bytes, made[part].begin() + (place.row + 1) * bytes);
    if (type != format) one = encoded(format, decoded(type, one, cols));
    expected.insert(expected.end(), one.begin(), one.end());
  }
  const int64_t bytes = cuda::matrix_bytes(format, outs, cols);
  if (info(format).block_elems > 1) {
    const TensorView view = {expected.data(), format, outs, cols, row_bytes(format, cols)};
    Bytes tiles(static_cast<size_t>(bytes));
    cuda::pack_tiles(view, tiles.data());
    expected = tiles;
  }
  const cuda::StreamOwner stream;
  cuda::Weights weights(cuda::padded(bytes), 0);
  const cuda::Matrix matrix = weights.upload(joined, format, stream);
  weights.finish(stream);
  REQUIRE(std::ssize(expected) == bytes);
  Bytes got(expected.size());
  SKALD_CUDA(cudaMemcpy(got.data(), matrix.data, got.size(), cudaMemcpyDeviceToHost));
  CHECK(got == expected);
}

}  // namespace

TEST_CASE("a matrix is the same whether the file has its parts or loading makes them") {
  constexpr DType kBf16 = DType::BF16, kF16 = DType::F16, kF32 = DType::F32, kQ4 = DType::Q4_K;
  const bool alternate = GENERATE(false, true);
  CAPTURE(alternate);
  // Three cases: the GPU makes all parts; the parts come from floats of two types; one part exists
  // in the file, so that the host makes the others.
  check_matrix(kQ4, {{kQ4, kBf16, 24}, {kQ4, kBf16, 24}}, 512, alternate);
  check_matrix(kQ4, {{kQ4, kBf16, 24}, {kQ4, kF32, 24}}, 2048, alternate);
  check_matrix(DType::Q8_0,
               {{DType::Q8_0, DType::Q8_0, 20}, {DType::Q8_0, kF16, 20}, {DType::Q8_0, kF32, 20}},
               1056, alternate);
  // Numbers that go through f16 lose what f16 cannot hold, and then become bf16.
  check_matrix(kBf16, {{kF16, kBf16, 9}, {kBf16, kBf16, 9}, {kBf16, kF32, 9}}, 33, alternate);
}

// Columns of a wider matrix, which are followed by numbers of others: the last ones end with their
// memory.
TEST_CASE("columns of a matrix are uploaded as a matrix of their own") {
  const auto [format, source] =
      GENERATE(std::pair(DType::BF16, DType::BF16), std::pair(DType::F16, DType::F32),
               std::pair(DType::Q8_0, DType::Q8_0), std::pair(DType::Q4_K, DType::Q4_K));
  const int64_t first = GENERATE(int64_t{0}, int64_t{256}, int64_t{512});
  CAPTURE(name(format), name(source), first);
  constexpr int64_t kRows = 5000, kWide = 768, kCols = 256;
  std::mt19937 random(7);
  Part wide{source, source, kRows};
  wide.fill(kWide, random);
  cuda::JoinedRows joined;
  Weight& part = joined.parts.emplace_back(wide.weight);
  part.view = slice_cols(part.view, first, kCols);
  Bytes rows;
  for (int64_t row = 0; row < kRows; ++row) {
    const std::byte* from = part.view.row(row);
    Bytes one(from, from + part.view.own_row_bytes());
    if (source != format) one = encoded(format, decoded(source, one, kCols));
    rows.insert(rows.end(), one.begin(), one.end());
  }
  const int64_t bytes = cuda::matrix_bytes(format, kRows, kCols);
  Bytes expected(static_cast<size_t>(bytes));
  if (info(format).block_elems > 1) {
    cuda::pack_tiles({rows.data(), format, kRows, kCols, row_bytes(format, kCols)},
                     expected.data());
  } else {
    expected = rows;
  }
  const cuda::StreamOwner stream;
  cuda::Weights weights(cuda::padded(bytes), 0);
  const cuda::Matrix matrix = weights.upload(joined, format, stream);
  weights.finish(stream);
  REQUIRE(matrix.ins == kCols);
  Bytes got(expected.size());
  SKALD_CUDA(cudaMemcpy(got.data(), matrix.data, got.size(), cudaMemcpyDeviceToHost));
  CHECK(got == expected);
}

TEST_CASE("a matrix of several buffers' size is made while loading") {
  check_matrix(DType::Q4_0, {{DType::Q4_0, DType::F32, 5000}, {DType::Q4_0, DType::F32, 3001}},
               4096, false);
}

}  // namespace skald::test
