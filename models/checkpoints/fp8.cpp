// FP8: weight[rows, cols] in E4M3. The scale is one of the matrix, one of each row, or one of each
// block of rows and columns, whose last blocks may be cut. Tools call it weight_scale, or
// weight_scale_inv (by which the weight is multiplied as well).
#include "engine/base/error.h"
#include "engine/base/float8.h"
#include "models/checkpoints/matrices.h"

namespace skald {
namespace {

struct ScalePlaces {
  int64_t block_rows = 1, block_cols = 1, row_step = 0, col_step = 0;
};

class Fp8Rows final : public FloatRows {
 public:
  Fp8Rows(const Part& codes, const Numbers& scales, const ScalePlaces& places)
      : codes_(codes.bytes), scales_(scales), places_(places) {}

  void read_row(int64_t row, std::span<float> out) const override {
    const std::byte* from = codes_.data() + row * std::ssize(out);
    const int64_t first = row / places_.block_rows * places_.row_step;
    float scale = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const auto col = static_cast<int64_t>(i);
      if (col % places_.block_cols == 0) {
        scale = scales_.at(first + col / places_.block_cols * places_.col_step);
      }
      out[i] = e4m3_to_f32(static_cast<uint8_t>(from[i])) * scale;
    }
  }

 private:
  std::span<const std::byte> codes_;
  Numbers scales_;
  ScalePlaces places_;
};

int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

ScalePlaces places_of(const Part& scales, int64_t rows, int64_t cols, const QuantMethod& method) {
  const std::vector<int64_t>& shape = scales.shape;
  if (shape.empty() || (shape.size() == 1 && shape[0] == 1) ||
      (shape.size() == 2 && shape[0] == 1 && shape[1] == 1 && method.block_rows == 0)) {
    return {rows, cols, 0, 0};
  }
  const bool of_rows =
      shape[0] == rows && (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1));
  if (of_rows && method.block_rows <= 1) return {1, cols, 1, 0};
  if (method.block_rows > 0) {
    const int64_t down = blocks(rows, method.block_rows), across = blocks(cols, method.block_cols);
    if (shape == std::vector<int64_t>{down, across}) {
      return {method.block_rows, method.block_cols, across, 1};
    }
    refuse_part(scales, concat("scales [", down, ", ", across, "] of blocks of ", method.block_rows,
                               " x ", method.block_cols, " (", method.where, ")"));
  }
  refuse_part(scales, concat("one scale, or one for each of ", rows, " rows"));
}

}  // namespace

QuantizedMatrix fp8_matrix(const Parts& parts, const QuantMethod& method) {
  parts.refuse_others({"weight", "weight_scale", "weight_scale_inv"});
  const Part& codes = parts.get("weight", {"F8_E4M3"}, {kAny, kAny});
  const int64_t rows = codes.shape[0], cols = codes.shape[1];
  const Part* inverse = parts.find("weight_scale_inv");
  const Part* other = parts.find("weight_scale");
  if (!inverse == !other)
    refuse_part(codes, "one of 'weight_scale' and 'weight_scale_inv' beside it");
  const Part& scales = inverse ? *inverse : *other;
  auto reader =
      std::make_unique<Fp8Rows>(codes, Numbers(scales), places_of(scales, rows, cols, method));
  return plain_rows(std::move(reader), rows, cols, method.plain);
}

}  // namespace skald
