// FP8: weight[rows, cols] in E4M3. The scale is one of the matrix, one of each row, or one of each
// block of rows and columns, whose last blocks may be cut. Tools call it weight_scale, or
// weight_scale_inv (by which the weight is multiplied as well).
#include <algorithm>
#include <array>

#include "engine/base/error.h"
#include "engine/base/float8.h"
#include "models/checkpoints/ceil_div.h"
#include "models/checkpoints/matrices.h"

namespace skald {
namespace {

struct ScalePlaces {
  int64_t block_rows = 1, block_cols = 1, row_step = 0, col_step = 0;
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
    int64_t at = row / places_.block_rows * places_.row_step;
    for (int64_t first = 0; first < cols; first += places_.block_cols, at += places_.col_step) {
      const float scale = scales_.at(at);
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
  return {.rows = rows,
          .cols = cols,
          .floats = std::make_unique<Fp8Rows>(codes, Numbers(scales), places)};
}

}  // namespace skald
