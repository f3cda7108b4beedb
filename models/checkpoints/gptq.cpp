// GPTQ. Bits of a column's integers follow one another without gaps, from the lowest bit of the
// first word on: qweight[cols * bits / 32, rows], qzeros[groups, rows * bits / 32], scales[groups,
// rows].
#include <algorithm>

#include "engine/base/error.h"
#include "models/checkpoints/matrices.h"

namespace skald {
namespace {

// Integers of `bits` bits without gaps, over words that lie `step` words apart.
class BitStream {
 public:
  BitStream(const Words& words, int bits) : words_(words), bits_(bits) {}

  int at(int64_t first, int64_t step, int64_t i) const {
    const int64_t bit = i * bits_, word = bit / 32;
    const int shift = static_cast<int>(bit % 32);
    uint64_t value = words_.at(first + word * step);
    if (shift + bits_ > 32) value |= uint64_t{words_.at(first + (word + 1) * step)} << 32;
    return static_cast<int>(value >> shift & ((1u << bits_) - 1));
  }

 private:
  Words words_;
  int bits_;
};

struct Shapes {
  int64_t rows, cols, groups;
};

// The first format stores zero points less 1. Its writer subtracts 1 from all fields of a word by
// one subtraction, so a zero point of 0 borrows from the next field, and one addition gives it
// back. 3 bits, whose fields cross the words' borders, are counted one by one.
class Zeros {
 public:
  Zeros(const Words& words, int bits, int64_t words_of_group, bool less_one)
      : words_(words), fields_(words, bits), bits_(bits), words_of_group_(words_of_group) {
    if (!less_one) return;
    if (bits == 3) {
      field_plus_ = 1;
    } else {
      for (int bit = 0; bit < 32; bit += bits) word_plus_ |= 1u << bit;
    }
  }

  int most() const { return (1 << bits_) - 1; }
  int at(int64_t row, int64_t group) const {
    const int64_t first = group * words_of_group_;
    if (bits_ == 3) return (fields_.at(first, 1, row) + field_plus_) & most();
    const int64_t bit = row * bits_;
    const uint32_t word = words_.at(first + bit / 32) + word_plus_;
    return static_cast<int>(word >> (bit % 32)) & most();
  }

 private:
  Words words_;
  BitStream fields_;
  int bits_;
  int64_t words_of_group_;
  uint32_t word_plus_ = 0;
  int field_plus_ = 0;
};

class GptqRows final : public IntegerRows {
 public:
  GptqRows(const BitStream& codes, const Zeros& zeros, int64_t rows, int64_t group,
           std::vector<int32_t> group_of)
      : codes_(codes), zeros_(zeros), rows_(rows), group_(group), group_of_(std::move(group_of)) {}

  void read_row(int64_t row, std::span<int16_t> out) const override {
    int64_t known = -1;
    int zero = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const auto col = static_cast<int64_t>(i);
      const int64_t group = group_of_.empty() ? col / group_ : group_of_[i];
      if (group != known) zero = zeros_.at(row, known = group);
      out[i] = static_cast<int16_t>(codes_.at(row, rows_, col) - zero);
    }
  }

 private:
  BitStream codes_;
  Zeros zeros_;
  int64_t rows_, group_;
  std::vector<int32_t> group_of_;
};

}  // namespace

QuantizedMatrix gptq_matrix(const Parts& parts, const QuantMethod& method) {
  parts.refuse_others({"qweight", "qzeros", "scales", "g_idx"});
  const int bits = method.bits.front();
  const Part& codes = parts.get("qweight", {"I32"}, {kAny, kAny});
  Shapes s;
  s.rows = codes.shape[1];
  s.cols = codes.shape[0] * 32 / bits;
  if (codes.shape[0] * 32 % bits != 0 || s.rows * bits % 32 != 0) {
    refuse_part(codes, concat("whole words of integers with ", bits, " bits (", method.where, ")"));
  }
  const int64_t group = method.group > 0 ? std::min(method.group, s.cols) : s.cols;
  s.groups = (s.cols + group - 1) / group;
  const Part& zeros = parts.get("qzeros", {"I32"}, {s.groups, s.rows * bits / 32});
  const Part& scales = parts.get("scales", {"F16", "BF16", "F32"}, {s.groups, s.rows});

  const Zeros zero_of(Words(zeros), bits, s.rows * bits / 32, method.zeros_less_one);
  int least = zero_of.most(), most = 0;
  for (int64_t g = 0; g < s.groups; ++g) {
    for (int64_t row = 0; row < s.rows; ++row) {
      const int zero = zero_of.at(row, g);
      least = std::min(least, zero);
      most = std::max(most, zero);
    }
  }
  std::vector<int32_t> order;
  if (parts.find("g_idx")) {
    order = column_groups(parts.get("g_idx", {"I32"}, {s.cols}), s.groups, group);
  }
  ScaledIntegers matrix{.rows = s.rows,
                        .cols = s.cols,
                        .low = -most,
                        .high = zero_of.most() - least,
                        .scales = Numbers(scales),
                        .row_step = 1,
                        .group_step = s.rows,
                        .group = group,
                        .group_of = order};
  matrix.integers = std::make_unique<GptqRows>(BitStream(Words(codes), bits), zero_of, s.rows,
                                               group, std::move(order));
  return scaled_rows(std::move(matrix), method.plain);
}

}  // namespace skald
