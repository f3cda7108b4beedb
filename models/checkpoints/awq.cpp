// AWQ for matrix products ("gemm"): qweight[cols, rows / 8], qzeros[groups, rows / 8] in words of
// eight integers of 4 bits, scales[groups, rows].
#include <algorithm>

#include "models/checkpoints/ceil_div.h"
#include "models/checkpoints/matrices.h"
#include "models/checkpoints/zeros.h"

namespace skald {
namespace {

constexpr int kMost = 15;

// The words of a matrix in which row 8 w + r has bits 4 kPlace[r] and up of each line's word w.
class Nibbles {
 public:
  Nibbles(const Words& words, int64_t words_of_line) : words_(words), step_(words_of_line) {}

  // The integers of a row, line after line.
  class Row {
   public:
    Row(const Nibbles& all, int64_t row)
        : words_(all.words_), step_(all.step_), word_(row / 8), shift_(4 * kPlace[row % 8]) {}
    int at(int64_t line) const {
      return static_cast<int>(words_.at(line * step_ + word_) >> shift_ & kMost);
    }

   private:
    static constexpr int kPlace[] = {0, 4, 1, 5, 2, 6, 3, 7};
    Words words_;
    int64_t step_, word_;
    int shift_;
  };

 private:
  Words words_;
  int64_t step_;
};

class AwqRows final : public IntegerRows {
 public:
  AwqRows(const Nibbles& codes, const Nibbles& zeros, const ColumnGroups& groups)
      : codes_(codes), zeros_(zeros), groups_(groups) {}

  void read_row(int64_t row, std::span<int16_t> out) const override {
    const Nibbles::Row codes(codes_, row), zeros(zeros_, row);
    int64_t col = 0;
    for (int16_t& integer : out) integer = static_cast<int16_t>(codes.at(col++));
    subtract_zeros(out, groups_, [&](int64_t group) { return zeros.at(group); });
  }

 private:
  Nibbles codes_, zeros_;
  ColumnGroups groups_;
};

}  // namespace

QuantizedMatrix awq_matrix(const Parts& parts, const QuantMethod& method) {
  parts.refuse_others({"qweight", "qzeros", "scales"});
  const Part& codes = parts.get("qweight", {"I32"}, {kAny, kAny});
  const int64_t cols = codes.shape[0], words = codes.shape[1], rows = words * 8;
  const int64_t group = method.group > 0 ? std::min(method.group, cols) : cols;
  const int64_t groups = ceil_div(cols, group);
  const Part& zeros = parts.get("qzeros", {"I32"}, {groups, words});
  const Part& scales = parts.get("scales", {"F16", "BF16", "F32"}, {groups, rows});
  ScaledIntegers integers;
  integers.low = -kMost;
  integers.high = kMost;
  integers.scales = Numbers(scales);
  integers.row_step = 1;
  integers.group_step = rows;
  integers.groups.width = group;
  integers.rows = std::make_unique<AwqRows>(Nibbles(Words(codes), words),
                                            Nibbles(Words(zeros), words), integers.groups);
  return {.rows = rows, .cols = cols, .integers = std::move(integers)};
}

}  // namespace skald
