// compressed-tensors' integers. Packed: weight_packed[rows, words], whose words hold 32 / bits
// integers plus 2^(bits - 1); weight_zero_point[words, groups], packed along the rows. In bytes:
// weight[rows, cols], weight_zero_point[rows, groups]. Both: weight_scale[rows, groups].
#include <algorithm>
#include <array>
#include <cstring>

#include "engine/base/error.h"
#include "models/checkpoints/matrices.h"

namespace skald {
namespace {

// The groups of a matrix, from the shape of its scales.
struct Groups {
  Numbers scales;
  int64_t count = 1, group = 1, row_step = 0, group_step = 0;
  std::vector<int32_t> of = {};
};

Groups read_groups(const Parts& parts, int64_t rows, int64_t cols) {
  const Part* part = parts.find("weight_scale");
  Groups out;
  out.group = cols;
  if (part && part->shape.size() <= 1) {  // of the whole matrix
    const int64_t one[] = {1};
    const bool scalar = part->shape.empty() || std::ranges::equal(part->shape, one);
    if (!scalar) refuse_part(*part, "one scale, or one of each row or group");
    out.scales = Numbers(*part);
    return out;
  }
  const Part& scales = parts.get("weight_scale", {"F16", "BF16", "F32"}, {rows, kAny});
  out.count = scales.shape[1];
  out.group = cols / out.count;
  if (cols % out.count != 0)
    refuse_part(scales, concat("groups of equal width in ", cols, " columns"));
  out.scales = Numbers(scales);
  out.row_step = out.count;
  out.group_step = 1;
  if (!parts.find("weight_g_idx")) return out;
  out.of = column_groups(parts.get("weight_g_idx", {"I32"}, {cols}), out.count, out.group);
  return out;
}

ScaledIntegers scaled(Groups groups, int64_t rows, int64_t cols) {
  return {.rows = rows,
          .cols = cols,
          .scales = groups.scales,
          .row_step = groups.row_step,
          .group_step = groups.group_step,
          .group = groups.group,
          .group_of = std::move(groups.of)};
}

// Zero points in the order [row, group], as integers with a sign.
using ZeroPoints = std::vector<int8_t>;

class IntegersOf final : public IntegerRows {
 public:
  struct Codes {
    Part part;
    int bits = 8;
    int64_t row_bytes = 0;
  };
  IntegersOf(Codes codes, ZeroPoints zeros, const Groups& groups)
      : codes_(std::move(codes)),
        words_(codes_.part),
        zeros_(std::move(zeros)),
        count_(groups.count),
        group_(groups.group),
        group_of_(groups.of) {}

  void read_row(int64_t row, std::span<int16_t> out) const override {
    const bool packed = codes_.part.type == "I32";
    const int per_word = 32 / codes_.bits, offset = 1 << (codes_.bits - 1);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto col = static_cast<int64_t>(i);
      if (packed) {
        const uint32_t word = words_.at(row * codes_.row_bytes / 4 + col / per_word);
        const auto code = word >> (col % per_word * codes_.bits) & ((1u << codes_.bits) - 1);
        out[i] = static_cast<int16_t>(static_cast<int>(code) - offset);
      } else {
        out[i] = static_cast<int8_t>(
            codes_.part.bytes[static_cast<size_t>(row * codes_.row_bytes + col)]);
      }
      if (zeros_.empty()) continue;
      const int64_t group = group_of_.empty() ? col / group_ : group_of_[i];
      out[i] = static_cast<int16_t>(out[i] - zeros_[static_cast<size_t>(row * count_ + group)]);
    }
  }

 private:
  Codes codes_;
  Words words_;
  ZeroPoints zeros_;
  int64_t count_, group_;
  std::vector<int32_t> group_of_;
};

QuantizedMatrix make(ScaledIntegers matrix, IntegersOf::Codes codes, ZeroPoints zeros,
                     const Groups& groups, DType plain) {
  const int half = 1 << (codes.bits - 1);
  int least = 0, most = 0;
  for (const int8_t zero : zeros) {
    least = std::min<int>(least, zero);
    most = std::max<int>(most, zero);
  }
  matrix.low = -half - most;
  matrix.high = half - 1 - least;
  matrix.integers = std::make_unique<IntegersOf>(std::move(codes), std::move(zeros), groups);
  return scaled_rows(std::move(matrix), plain);
}

// How many bits the integers have of which `words` words hold a row.
int bits_of(const Part& codes, int64_t cols, const QuantMethod& method) {
  int found = 0;
  for (const int bits : method.bits) {
    const int64_t per_word = 32 / bits;
    if ((cols + per_word - 1) / per_word != codes.shape[1]) continue;
    if (found != 0) refuse_part(codes, concat("integers of one size (", method.where, ")"));
    found = bits;
  }
  if (found == 0) {
    refuse_part(codes,
                concat("rows of ", cols, " integers with 'num_bits' bits (", method.where, ")"));
  }
  return found;
}

ZeroPoints packed_zeros(const Parts& parts, int bits, int64_t rows, int64_t groups) {
  if (!parts.find("weight_zero_point")) return {};
  const int per_word = 32 / bits;
  const Words words(
      parts.get("weight_zero_point", {"I32"}, {(rows + per_word - 1) / per_word, groups}));
  ZeroPoints zeros;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const uint32_t word = words.at(row / per_word * groups + group);
      const uint32_t code = word >> (row % per_word * bits) & ((1u << bits) - 1);
      zeros.push_back(static_cast<int8_t>(static_cast<int>(code) - (1 << (bits - 1))));
    }
  }
  return zeros;
}

}  // namespace

QuantizedMatrix packed_int_matrix(const Parts& parts, const QuantMethod& method) {
  parts.refuse_others(
      {"weight_packed", "weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx"});
  const Part& shape = parts.get("weight_shape", {"I64", "I32"}, {2});
  std::array<int64_t, 2> dims = {};  // rows, columns
  for (size_t i = 0; i < dims.size(); ++i) {
    if (shape.type == "I32") {
      dims[i] = static_cast<int32_t>(Words(shape).at(static_cast<int64_t>(i)));
    } else {
      std::memcpy(&dims[i], shape.bytes.data() + 8 * i, 8);
    }
  }
  const auto [rows, cols] = dims;
  const Part& codes = parts.get("weight_packed", {"I32"}, {kAny, kAny});
  // A word holds at most 16 integers, so a shape from a hostile file gives no large product.
  if (rows != codes.shape[0] || cols < 1 || cols > codes.shape[1] * 16) {
    refuse_part(codes,
                concat("the words of [", rows, ", ", cols, "] integers, as 'weight_shape' says"));
  }
  const int bits = bits_of(codes, cols, method);
  const Groups groups = read_groups(parts, rows, cols);
  return make(scaled(groups, rows, cols), {codes, bits, codes.shape[1] * 4},
              packed_zeros(parts, bits, rows, groups.count), groups, method.plain);
}

QuantizedMatrix int8_matrix(const Parts& parts, const QuantMethod& method) {
  parts.refuse_others({"weight", "weight_scale", "weight_zero_point", "weight_g_idx"});
  const Part& codes = parts.get("weight", {"I8"}, {kAny, kAny});
  const int64_t rows = codes.shape[0], cols = codes.shape[1];
  const Groups groups = read_groups(parts, rows, cols);
  ZeroPoints zeros;
  if (const Part* part = parts.find("weight_zero_point")) {
    const int64_t count = groups.scales.count();
    if (part->type != "I8" || std::ssize(part->bytes) != count) {
      refuse_part(*part, concat("I8, one for each of ", count, " scales"));
    }
    for (int64_t i = 0; i < rows * groups.count; ++i) {
      const int64_t at = groups.row_step == 0 ? 0 : i;
      zeros.push_back(static_cast<int8_t>(part->bytes[static_cast<size_t>(at)]));
    }
  }
  return make(scaled(groups, rows, cols), {codes, 8, cols}, std::move(zeros), groups, method.plain);
}

}  // namespace skald
