#include "models/checkpoints/rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/half.h"
#include "engine/quant/code_bytes.h"
#include "engine/quant/formats/q4_0.h"
#include "engine/quant/formats/q5_0.h"
#include "engine/quant/formats/q8_0.h"

namespace skald {
namespace {

class PlainReader final : public RowReader {
 public:
  PlainReader(std::unique_ptr<FloatRows> floats, int64_t cols, DType type)
      : floats_(std::move(floats)), cols_(cols), type_(type) {}

  void read_row(int64_t row, std::byte* out) const override {
    std::vector<float> weights(static_cast<size_t>(cols_));
    floats_->read_row(row, weights);
    info(type_).encode_row(weights.data(), out, cols_, nullptr);
  }

 private:
  std::unique_ptr<FloatRows> floats_;
  int64_t cols_;
  DType type_;
};

class ProductRows final : public FloatRows {
 public:
  explicit ProductRows(ScaledIntegers matrix) : m_(std::move(matrix)) {}

  void read_row(int64_t row, std::span<float> out) const override {
    std::vector<int16_t> integers(out.size());
    m_.rows->read_row(row, integers);
    m_.groups.for_each_run(std::ssize(out), [&](int64_t group, int64_t first, int64_t end) {
      const float scale = m_.scale(row, group);
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
        out[i] = scale * static_cast<float>(integers[i]);
      }
    });
  }

 private:
  ScaledIntegers m_;
};

void pack(const int16_t* in, BlockQ4_0& out) {
  const auto code = [&](int i) { return in[i] + 8; };
  for (int i = 0; i < 16; ++i) out.q[i] = nibble_byte<16>(code, i);
}

void pack(const int16_t* in, BlockQ5_0& out) {
  const auto code = [&](int i) { return in[i] + 16; };
  for (int i = 0; i < 16; ++i) out.q[i] = nibble_byte<16>(code, i);
  for (int i = 0; i < 4; ++i) out.high[i] = fifth_bits<1>(code, 8 * i);
}

void pack(const int16_t* in, BlockQ8_0& out) {
  for (int i = 0; i < BlockQ8_0::kElems; ++i) out.q[i] = static_cast<int8_t>(in[i]);
}

template <class Block>
class BlockReader final : public RowReader {
 public:
  BlockReader(ScaledIntegers matrix, int64_t cols) : m_(std::move(matrix)), cols_(cols) {}

  void read_row(int64_t row, std::byte* out) const override {
    std::vector<int16_t> integers(static_cast<size_t>(cols_));
    m_.rows->read_row(row, integers);
    for (int64_t col = 0; col < cols_; col += Block::kElems, out += sizeof(Block)) {
      Block block;
      block.scale = f32_to_f16(m_.scale(row, m_.groups.at(col)));
      pack(integers.data() + col, block);
      std::memcpy(out, &block, sizeof block);
    }
  }

 private:
  ScaledIntegers m_;
  int64_t cols_;
};

constexpr int64_t kBlock = BlockQ8_0::kElems;
static_assert(BlockQ4_0::kElems == kBlock && BlockQ5_0::kElems == kBlock);

// The formats of integers, from narrow to wide.
struct IntegerFormat {
  DType type;
  int least, most;
};
constexpr IntegerFormat kFormats[] = {
    {DType::Q4_0, -8, 7}, {DType::Q5_0, -16, 15}, {DType::Q8_0, -128, 127}};

// The place of a format among those of integers; their number for other formats.
size_t width(DType type) {
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const IntegerFormat& f) { return f.type == type; });
  return static_cast<size_t>(found - kFormats);
}

}  // namespace

ColumnGroups read_groups(const Part& part, int64_t groups, int64_t width) {
  const Words words(part);
  const int64_t cols = part.shape.front();
  ColumnGroups out{width, std::vector<int32_t>(static_cast<size_t>(cols))};
  bool in_order = true, all_equal = true;
  for (int64_t col = 0; col < cols; ++col) {
    const auto at = static_cast<int32_t>(words.at(col));
    out.of[static_cast<size_t>(col)] = at;
    in_order = in_order && at == col / width;
    all_equal = all_equal && at == out.of.front();
  }
  if (in_order || (all_equal && (groups > 1 || out.of.front() == -1))) return {width};
  std::vector<int64_t> counts(static_cast<size_t>(groups));
  for (const int32_t at : out.of) {
    if (at < 0 || at >= groups) {
      refuse_part(part, concat("groups from 0 to ", groups - 1, ", but a column has ", at));
    }
    ++counts[static_cast<size_t>(at)];
  }
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t expected = std::min(width, cols - group * width);
    if (counts[static_cast<size_t>(group)] == expected) continue;
    refuse_part(part, concat("groups of ", width, " columns, but group ", group, " has ",
                             counts[static_cast<size_t>(group)]));
  }
  return out;
}

DType exact_type(const QuantizedMatrix& matrix, DType plain) {
  if (matrix.blocks) return matrix.block_type;
  if (!matrix.integers) return plain;
  const ScaledIntegers& m = *matrix.integers;
  const bool whole = matrix.cols % kBlock == 0 && m.groups.of.empty() &&
                     (m.groups.width % kBlock == 0 || m.groups.width >= matrix.cols);
  if (!whole) return plain;
  for (const auto& [type, least, most] : kFormats) {
    if (m.low >= least && m.high <= most) return m.scales.all_f16() ? type : plain;
  }
  return plain;
}

DType common_type(DType a, DType b, DType plain) {
  if (a == b) return a;
  for (const DType type : {a, b}) {
    if (info(type).block_elems == 1) return type;
  }
  const size_t wider = std::max(width(a), width(b));
  return wider < std::size(kFormats) ? kFormats[wider].type : plain;
}

std::unique_ptr<RowReader> reader_of(QuantizedMatrix matrix, DType type) {
  if (matrix.blocks && type == matrix.block_type) return std::move(matrix.blocks);
  if (matrix.floats) {
    return std::make_unique<PlainReader>(std::move(matrix.floats), matrix.cols, type);
  }
  ScaledIntegers& m = *matrix.integers;
  if (type == DType::Q4_0) {
    return std::make_unique<BlockReader<BlockQ4_0>>(std::move(m), matrix.cols);
  }
  if (type == DType::Q5_0) {
    return std::make_unique<BlockReader<BlockQ5_0>>(std::move(m), matrix.cols);
  }
  if (type == DType::Q8_0) {
    return std::make_unique<BlockReader<BlockQ8_0>>(std::move(m), matrix.cols);
  }
  auto products = std::make_unique<ProductRows>(std::move(m));
  return std::make_unique<PlainReader>(std::move(products), matrix.cols, type);
}

}  // namespace skald
