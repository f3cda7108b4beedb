// GPTQ. Bits of a column's integers follow one another without gaps, from the lowest bit of the
// first word on: qweight[cols * bits / 32, rows], qzeros[groups, rows * bits / 32], scales[groups,
// rows].
#include <algorithm>

#include "engine/base/error.h"
#include "models/checkpoints/ceil_div.h"
#include "models/checkpoints/matrices.h"
#include "models/checkpoints/zeros.h"

namespace skald {
namespace {

int field(uint64_t bits, int shift, int width) {
  return static_cast<int>(bits >> shift & ((uint64_t{1} << width) - 1));
}

// Integers of 3 bits cross the borders of words, which lie `step` words apart.
int three_bits(const Words& words, int64_t first, int64_t step, int64_t i) {
  const int64_t bit = i * 3, word = bit / 32;
  const int shift = static_cast<int>(bit % 32);
  uint64_t value = words.at(first + word * step);
  if (shift + 3 > 32) value |= uint64_t{words.at(first + (word + 1) * step)} << 32;
  return field(value, shift, 3);
}

// The first format stores each zero point minus 1. Its writer subtracts 1 from all fields of a word
// in one subtraction, so a zero point of 0 borrows from the next field. One addition to the word
// undoes this. Zero points of 3 bits are handled one by one.
class Zeros {
 public:
  Zeros(const Words& words, int bits, int64_t words_of_group, bool less_one)
      : words_(words), bits_(bits), words_of_group_(words_of_group) {
    if (!less_one) return;
    if (bits == 3) {
      field_plus_ = 1;
    } else {
      word_plus_ = in_each_field(1);
    }
  }

  int most() const { return (1 << bits_) - 1; }

  int at(int64_t row, int64_t group) const {
    const int64_t first = group * words_of_group_;
    if (bits_ == 3) return (three_bits(words_, first, 1, row) + field_plus_) & most();
    const int64_t bit = row * bits_;
    return field(word(first + bit / 32), static_cast<int>(bit % 32), bits_);
  }

  ZeroRange range(int64_t rows, int64_t groups) const {
    ZeroRange range;
    const int middle = (most() + 1) / 2, per_word = 32 / bits_;
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t row = 0; row < rows; ++row) {
        const bool begins = bits_ != 3 && row % per_word == 0;
        if (begins && word(g * words_of_group_ + row / per_word) == in_each_field(middle)) {
          range.add(middle);  // most files have no other word
          row += per_word - 1;
        } else {
          range.add(at(row, g));
        }
      }
    }
    return range;
  }

 private:
  uint32_t word(int64_t i) const { return words_.at(i) + word_plus_; }
  uint32_t in_each_field(int number) const {
    uint32_t word = 0;
    for (int bit = 0; bit < 32; bit += bits_) word |= static_cast<uint32_t>(number) << bit;
    return word;
  }

  Words words_;
  int bits_;
  int64_t words_of_group_;
  uint32_t word_plus_ = 0;
  int field_plus_ = 0;
};

class GptqRows final : public IntegerRows {
 public:
  GptqRows(const Words& codes, int bits, const Zeros& zeros, int64_t rows, ColumnGroups groups)
      : codes_(codes), bits_(bits), zeros_(zeros), rows_(rows), groups_(std::move(groups)) {}

  void read_row(int64_t row, std::span<int16_t> out) const override {
    if (bits_ == 3) {
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<int16_t>(three_bits(codes_, row, rows_, static_cast<int64_t>(i)));
      }
    } else {
      int64_t at = row;
      for (size_t i = 0; i < out.size(); at += rows_) {
        const uint32_t word = codes_.at(at);
        for (int bit = 0; bit < 32; bit += bits_) {
          out[i++] = static_cast<int16_t>(field(word, bit, bits_));
        }
      }
    }
    subtract_zeros(out, groups_, [&](int64_t group) { return zeros_.at(row, group); });
  }

 private:
  Words codes_;
  int bits_;
  Zeros zeros_;
  int64_t rows_;
  ColumnGroups groups_;
};

}  // namespace

QuantizedMatrix gptq_matrix(const Parts& parts, const QuantMethod& method) {
  parts.refuse_others({"qweight", "qzeros", "scales", "g_idx"});
  const int bits = method.bits.front();
  const Part& codes = parts.get("qweight", {"I32"}, {kAny, kAny});
  const int64_t rows = codes.shape[1], cols = codes.shape[0] * 32 / bits;
  if (codes.shape[0] * 32 % bits != 0 || rows * bits % 32 != 0) {
    refuse_part(codes, concat("whole words of integers with ", bits, " bits (", method.where, ")"));
  }
  const int64_t group = method.group > 0 ? std::min(method.group, cols) : cols;
  const int64_t groups = ceil_div(cols, group);
  const Part& zeros = parts.get("qzeros", {"I32"}, {groups, rows * bits / 32});
  const Part& scales = parts.get("scales", {"F16", "BF16", "F32"}, {groups, rows});

  ScaledIntegers integers;
  integers.scales = Numbers(scales);
  integers.row_step = 1;
  integers.group_step = rows;
  integers.groups.width = group;
  if (parts.find("g_idx") || (method.ordered && groups > 1)) {
    integers.groups = read_groups(parts.get("g_idx", {"I32"}, {cols}), groups, group);
  }
  const Zeros zero(Words(zeros), bits, rows * bits / 32, method.zeros_less_one);
  const ZeroRange range = zero.range(rows, groups);
  integers.low = -range.most;
  integers.high = zero.most() - range.least;
  integers.rows = std::make_unique<GptqRows>(Words(codes), bits, zero, rows, integers.groups);
  return {.rows = rows, .cols = cols, .integers = std::move(integers)};
}

}  // namespace skald
