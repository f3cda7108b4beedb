// FP8: weight[rows, cols] in E4M3. There is one scale for the matrix, one for each row, or one for
// each block of rows and columns; the last blocks may be smaller. Tools call it weight_scale or
// weight_scale_inv. In spite of the second name, weights are multiplied by it too.
//
// A matrix whose rows are whole blocks of BlockFP8, each with one scale, stays in 8 bits. Others
// become plain numbers.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/float8.h"
#include "engine/quant/formats/fp8.h"
#include "models/checkpoints/ceil_div.h"
#include "models/checkpoints/matrices.h"

namespace skald {
namespace {

struct ScalePlaces {
  int64_t block_rows = 1, block_cols = 1, row_step = 0, col_step = 0;

  // The scale of a row's column `col`.
  int64_t at(int64_t row, int64_t col) const {
    return row / block_rows * row_step + col / block_cols * col_step;
  }
  bool fits_blocks(int64_t cols) const {
    constexpr int64_t kBlock = BlockFP8::kElems;
    return cols % kBlock == 0 && (block_cols >= cols || block_cols % kBlock == 0);
  }
};

const std::array<float, 256>& e4m3_numbers() {
  static const std::array<float, 256> kNumbers = [] {
    std::array<float, 256> numbers;
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = e4m3_to_f32(static_cast<uint8_t>(i));
    return numbers;
  }();
  return kNumbers;
}

class Fp8Rows final : public FloatRows {
 public:
  Fp8Rows(const Part& codes, const Numbers& scales, const ScalePlaces& places)
      : codes_(codes.bytes), scales_(scales), places_(places) {}

  void read_row(int64_t row, std::span<float> out) const override {
    const std::array<float, 256>& numbers = e4m3_numbers();
    const int64_t cols = std::ssize(out);
    const std::byte* from = codes_.data() + row * cols;
    for (int64_t first = 0; first < cols; first += places_.block_cols) {
      const float scale = scales_.at(places_.at(row, first));
      const int64_t end = std::min(cols, first + places_.block_cols);
      for (int64_t i = first; i < end; ++i) {
        out[static_cast<size_t>(i)] = numbers[static_cast<uint8_t>(from[i])] * scale;
      }
    }
  }

 private:
  std::span<const std::byte> codes_;
  Numbers scales_;
  ScalePlaces places_;
};

class Fp8Blocks final : public RowReader {
 public:
  Fp8Blocks(const Part& codes, const Numbers& scales, const ScalePlaces& places)
      : codes_(codes.bytes), cols_(codes.shape[1]), scales_(scales), places_(places) {}

  void read_row(int64_t row, std::byte* out) const override {
    const std::byte* from = codes_.data() + row * cols_;
    for (int64_t col = 0; col < cols_; col += BlockFP8::kElems, out += sizeof(BlockFP8)) {
      BlockFP8 block;
      std::memcpy(block.q, from + col, sizeof block.q);
      const bool has_nan = std::any_of(std::begin(block.q), std::end(block.q), is_e4m3_nan);
      block.scale =
          has_nan ? std::numeric_limits<float>::quiet_NaN() : scales_.at(places_.at(row, col));
      std::memcpy(out, &block, sizeof block);
    }
  }

 private:
  std::span<const std::byte> codes_;
  int64_t cols_;
  Numbers scales_;
  ScalePlaces places_;
};

ScalePlaces places_of(const Part& scales, int64_t rows, int64_t cols, const QuantMethod& method) {
  const std::vector<int64_t>& shape = scales.shape;
  using Dims = std::vector<int64_t>;
  if (method.block_rows > 0) {
    const int64_t down = ceil_div(rows, method.block_rows);
    const int64_t across = ceil_div(cols, method.block_cols);
    if (shape == Dims{down, across}) return {method.block_rows, method.block_cols, across, 1};
  }
  if (shape.empty() || shape == Dims{1} || shape == Dims{1, 1}) return {rows, cols, 0, 0};
  if (shape == Dims{rows} || shape == Dims{rows, 1}) return {1, cols, 1, 0};
  refuse_part(scales, concat("one scale, one for each of ", rows, " rows",
                             method.block_rows == 0
                                 ? std::string()
                                 : concat(", or one for each block of ", method.block_rows, " x ",
                                          method.block_cols, " (", method.where, ")")));
}

// Zero points of FP8 are zeros, where a file has them.
void check_zero_points(const Parts& parts) {
  const Part* zeros = parts.find("weight_zero_point");
  if (!zeros) return;
  const auto zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (!std::all_of(zeros->bytes.begin(), zeros->bytes.end(), zero)) {
    refuse_part(*zeros, "zeros beside FP8");
  }
}

}  // namespace

QuantizedMatrix fp8_matrix(const Parts& parts, const QuantMethod& method) {
  parts.refuse_others({"weight", "weight_scale", "weight_scale_inv", "weight_zero_point"});
  check_zero_points(parts);
  const Part& codes = parts.get("weight", {"F8_E4M3"}, {kAny, kAny});
  const int64_t rows = codes.shape[0], cols = codes.shape[1];
  const Part* inverse = parts.find("weight_scale_inv");
  const Part* other = parts.find("weight_scale");
  if (!inverse == !other) {
    refuse_part(codes, "either 'weight_scale' or 'weight_scale_inv' beside it");
  }
  const Part& scales = inverse ? *inverse : *other;
  const ScalePlaces places = places_of(scales, rows, cols, method);
  QuantizedMatrix matrix{.rows = rows,
                         .cols = cols,
                         .floats = std::make_unique<Fp8Rows>(codes, Numbers(scales), places)};
  if (places.fits_blocks(cols)) {
    matrix.blocks = std::make_unique<Fp8Blocks>(codes, Numbers(scales), places);
    matrix.block_type = DType::FP8;
  }
  return matrix;
}

}  // namespace skald
