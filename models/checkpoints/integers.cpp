// compressed-tensors' integers. Packed: weight_packed[rows, words], whose words hold 32 / bits
// integers plus 2^(bits - 1); weight_zero_point[words, groups], packed along the rows. In bytes:
// weight[rows, cols], weight_zero_point[rows, groups]. Both: weight_scale[rows, groups].
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "engine/base/error.h"
#include "models/checkpoints/ceil_div.h"
#include "models/checkpoints/matrices.h"
#include "models/checkpoints/zeros.h"

namespace skald {
namespace {

// The scales of a matrix, and the groups that their shape tells.
struct Scaling {
  Numbers scales;
  int64_t count = 1, row_step = 0, group_step = 0;
  ColumnGroups groups;
};

Scaling read_scaling(const Parts& parts, int64_t rows, int64_t cols, const QuantMethod& method) {
  const Part* part = parts.find("weight_scale");
  Scaling out;
  out.groups.width = cols;
  if (part && part->shape.size() <= 1) {  // of the whole matrix
    out.scales = Numbers(*part);
    if (out.scales.count() != 1) refuse_part(*part, "one scale, or one of each row or group");
    return out;
  }
  const Part& scales = parts.get("weight_scale", {"F16", "BF16", "F32"}, {rows, kAny});
  out.count = scales.shape[1];
  out.groups.width = cols / out.count;
  if (cols % out.count != 0) {
    refuse_part(scales, concat("groups of equal width in ", cols, " columns"));
  }
  out.scales = Numbers(scales);
  out.row_step = out.count;
  out.group_step = 1;
  if (parts.find("weight_g_idx") || (method.ordered && out.count > 1)) {
    const Part& order = parts.get("weight_g_idx", {"I32"}, {cols});
    out.groups = read_groups(order, out.count, out.groups.width);
  }
  return out;
}

// The k-th integer of a word, stored plus half of the range.
int packed_integer(uint32_t word, int64_t k, int bits) {
  const uint32_t code = word >> (k * bits) & ((1u << bits) - 1);
  return static_cast<int>(code) - (1 << (bits - 1));
}

// Integers of a row as they lie: in words, or in bytes.
class Codes {
 public:
  Codes(const Part& part, int bits)
      : words_(part), bytes_(part.bytes.data()), bits_(bits), step_(part.shape[1]) {
    packed_ = part.type == "I32";
  }
  int bits() const { return bits_; }
  int half() const { return 1 << (bits_ - 1); }

  void read_row(int64_t row, std::span<int16_t> out) const {
    if (!packed_) {
      const std::byte* from = bytes_ + row * step_;
      for (int16_t& integer : out) integer = static_cast<int8_t>(*from++);
      return;
    }
    const int per_word = 32 / bits_;
    int64_t word = row * step_;
    for (size_t i = 0; i < out.size(); ++word) {
      const uint32_t codes = words_.at(word);
      for (int k = 0; k < per_word && i < out.size(); ++k) {
        out[i++] = static_cast<int16_t>(packed_integer(codes, k, bits_));
      }
    }
  }

 private:
  Words words_;
  const std::byte* bytes_;
  int bits_;
  int64_t step_;  // words or bytes of a row
  bool packed_;
};

// Zero points: packed along the rows, or in bytes.
class ZeroPoints {
 public:
  ZeroPoints(const Part& part, int bits, int64_t groups)
      : words_(part), bytes_(part.bytes.data()), bits_(bits), groups_(groups) {
    packed_ = part.type == "I32";
    one_ = std::ssize(part.bytes) == 1;
  }
  int at(int64_t row, int64_t group) const {
    if (!packed_) return static_cast<int8_t>(bytes_[one_ ? 0 : row * groups_ + group]);
    const int per_word = 32 / bits_;
    return packed_integer(words_.at(row / per_word * groups_ + group), row % per_word, bits_);
  }

 private:
  Words words_;
  const std::byte* bytes_;
  int bits_;
  int64_t groups_;
  bool packed_, one_;
};

class CodeRows final : public IntegerRows {
 public:
  CodeRows(const Codes& codes, const std::optional<ZeroPoints>& zeros, ColumnGroups groups)
      : codes_(codes), zeros_(zeros), groups_(std::move(groups)) {}

  void read_row(int64_t row, std::span<int16_t> out) const override {
    codes_.read_row(row, out);
    if (!zeros_) return;
    subtract_zeros(out, groups_, [&](int64_t group) { return zeros_->at(row, group); });
  }

 private:
  Codes codes_;
  std::optional<ZeroPoints> zeros_;
  ColumnGroups groups_;
};

// `zero_part`: null if there are no zero points.
QuantizedMatrix make(const Part& part, const Codes& codes, const Part* zero_part, int64_t cols,
                     Scaling scaling) {
  const int64_t rows = part.shape[0];
  ZeroRange range;
  range.add(0);
  std::optional<ZeroPoints> zeros;
  if (zero_part) {
    zeros.emplace(*zero_part, codes.bits(), scaling.count);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t group = 0; group < scaling.count; ++group) range.add(zeros->at(row, group));
    }
  }
  ScaledIntegers integers;
  integers.low = -codes.half() - range.most;
  integers.high = codes.half() - 1 - range.least;
  integers.rows = std::make_unique<CodeRows>(codes, zeros, scaling.groups);
  integers.scales = scaling.scales;
  integers.row_step = scaling.row_step;
  integers.group_step = scaling.group_step;
  integers.groups = std::move(scaling.groups);
  return {.rows = rows, .cols = cols, .integers = std::move(integers)};
}

// How many bits the integers have of which `words` words hold a row.
int bits_of(const Part& codes, int64_t cols, const QuantMethod& method) {
  int found = 0;
  for (const int bits : method.bits) {
    if (ceil_div(cols, 32 / bits) != codes.shape[1]) continue;
    if (found != 0) refuse_part(codes, concat("integers of one width (", method.where, ")"));
    found = bits;
  }
  if (found == 0) {
    refuse_part(codes,
                concat("rows of ", cols, " integers with 'num_bits' bits (", method.where, ")"));
  }
  return found;
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
  const Part& packed = parts.get("weight_packed", {"I32"}, {kAny, kAny});
  // A word holds at most 16 integers, so a shape from a hostile file gives no large product.
  if (rows != packed.shape[0] || cols < 1 || cols > packed.shape[1] * 16) {
    refuse_part(packed,
                concat("the words of [", rows, ", ", cols, "] integers, as 'weight_shape' says"));
  }
  const Codes codes(packed, bits_of(packed, cols, method));
  Scaling scaling = read_scaling(parts, rows, cols, method);
  const Part* zeros = parts.find("weight_zero_point");
  if (zeros) {
    parts.get("weight_zero_point", {"I32"}, {ceil_div(rows, 32 / codes.bits()), scaling.count});
  }
  return make(packed, codes, zeros, cols, std::move(scaling));
}

QuantizedMatrix int8_matrix(const Parts& parts, const QuantMethod& method) {
  parts.refuse_others({"weight", "weight_scale", "weight_zero_point", "weight_g_idx"});
  const Part& bytes = parts.get("weight", {"I8"}, {kAny, kAny});
  const int64_t cols = bytes.shape[1];
  Scaling scaling = read_scaling(parts, bytes.shape[0], cols, method);
  const Part* zeros = parts.find("weight_zero_point");
  const int64_t count = scaling.scales.count();
  if (zeros && (zeros->type != "I8" || std::ssize(zeros->bytes) != count)) {
    refuse_part(*zeros, concat("I8, one for each of ", count, " scales"));
  }
  return make(bytes, Codes(bytes, 8), zeros, cols, std::move(scaling));
}

}  // namespace skald
