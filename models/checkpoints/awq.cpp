// AWQ for matrix products ("gemm"): qweight[cols, rows / 8], qzeros[groups, rows / 8] in words of
// eight integers of 4 bits, scales[groups, rows].
#include <algorithm>

#include "models/checkpoints/matrices.h"

namespace skald {
namespace {

// Row 8 w + r has bits 4 kPlace[r] and up of word w.
constexpr int kPlace[] = {0, 4, 1, 5, 2, 6, 3, 7};
constexpr int kMost = 15;

int nibble(const Words& words, int64_t first, int64_t row) {
  return static_cast<int>(words.at(first + row / 8) >> (4 * kPlace[row % 8]) & kMost);
}

class AwqRows final : public IntegerRows {
 public:
  AwqRows(const Words& codes, const Words& zeros, int64_t rows, int64_t group)
      : codes_(codes), zeros_(zeros), words_(rows / 8), group_(group) {}

  void read_row(int64_t row, std::span<int16_t> out) const override {
    int zero = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const auto col = static_cast<int64_t>(i);
      if (col % group_ == 0) zero = nibble(zeros_, col / group_ * words_, row);
      out[i] = static_cast<int16_t>(nibble(codes_, col * words_, row) - zero);
    }
  }

 private:
  Words codes_, zeros_;
  int64_t words_, group_;
};

}  // namespace

QuantizedMatrix awq_matrix(const Parts& parts, const QuantMethod& method) {
  parts.refuse_others({"qweight", "qzeros", "scales"});
  const Part& codes = parts.get("qweight", {"I32"}, {kAny, kAny});
  const int64_t cols = codes.shape[0], rows = codes.shape[1] * 8;
  const int64_t group = method.group > 0 ? std::min(method.group, cols) : cols;
  const int64_t groups = (cols + group - 1) / group;
  const Part& zeros = parts.get("qzeros", {"I32"}, {groups, rows / 8});
  const Part& scales = parts.get("scales", {"F16", "BF16", "F32"}, {groups, rows});
  ScaledIntegers matrix{.rows = rows,
                        .cols = cols,
                        .low = -kMost,
                        .high = kMost,
                        .scales = Numbers(scales),
                        .row_step = 1,
                        .group_step = rows,
                        .group = group};
  matrix.integers = std::make_unique<AwqRows>(Words(codes), Words(zeros), rows, group);
  return scaled_rows(std::move(matrix), method.plain);
}

}  // namespace skald
