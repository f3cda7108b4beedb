#include "models/checkpoints/rows.h"

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
    m_.integers->read_row(row, integers);
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = m_.scale(row, static_cast<int64_t>(i)) * static_cast<float>(integers[i]);
    }
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
  explicit BlockReader(ScaledIntegers matrix) : m_(std::move(matrix)) {}

  void read_row(int64_t row, std::byte* out) const override {
    std::vector<int16_t> integers(static_cast<size_t>(m_.cols));
    m_.integers->read_row(row, integers);
    for (int64_t col = 0; col < m_.cols; col += Block::kElems, out += sizeof(Block)) {
      Block block;
      block.scale = f32_to_f16(m_.scale(row, col));
      pack(integers.data() + col, block);
      std::memcpy(out, &block, sizeof block);
    }
  }

 private:
  ScaledIntegers m_;
};

template <class Block>
QuantizedMatrix block_rows(ScaledIntegers matrix, DType type) {
  QuantizedMatrix out{type, matrix.rows, matrix.cols};
  out.reader = std::make_unique<BlockReader<Block>>(std::move(matrix));
  return out;
}

}  // namespace

QuantizedMatrix plain_rows(std::unique_ptr<FloatRows> floats, int64_t rows, int64_t cols,
                           DType plain) {
  return {plain, rows, cols, std::make_unique<PlainReader>(std::move(floats), cols, plain)};
}

QuantizedMatrix scaled_rows(ScaledIntegers matrix, DType plain) {
  constexpr int64_t kBlock = BlockQ8_0::kElems;
  static_assert(BlockQ4_0::kElems == kBlock && BlockQ5_0::kElems == kBlock);
  const auto within = [&](int least, int most) {
    return matrix.low >= least && matrix.high <= most;
  };
  const bool blocks = matrix.cols % kBlock == 0 && matrix.group_of.empty() &&
                      (matrix.group % kBlock == 0 || matrix.group >= matrix.cols) &&
                      within(-128, 127) && matrix.scales.all_f16();
  if (!blocks) {
    const int64_t rows = matrix.rows, cols = matrix.cols;
    return plain_rows(std::make_unique<ProductRows>(std::move(matrix)), rows, cols, plain);
  }
  if (within(-8, 7)) return block_rows<BlockQ4_0>(std::move(matrix), DType::Q4_0);
  if (within(-16, 15)) return block_rows<BlockQ5_0>(std::move(matrix), DType::Q5_0);
  return block_rows<BlockQ8_0>(std::move(matrix), DType::Q8_0);
}

std::vector<int32_t> column_groups(const Part& part, int64_t groups, int64_t group) {
  const Words words(part);
  std::vector<int32_t> of;
  bool in_order = true, unnamed = true;
  for (int64_t col = 0; col < part.shape.front(); ++col) {
    of.push_back(static_cast<int32_t>(words.at(col)));
    in_order = in_order && of.back() == col / group;
    unnamed = unnamed && of.back() == -1;
  }
  if (in_order || unnamed) return {};
  for (const int32_t at : of) {
    if (at < 0 || at >= groups) {
      refuse_part(part, concat("groups from 0 to ", groups - 1, ", but a column has ", at));
    }
  }
  return of;
}

}  // namespace skald
