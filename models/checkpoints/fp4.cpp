// FP4 (E2M1) with scales of 16 or 32 columns: bytes of two columns, the first in the low half.
#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/float8.h"
#include "engine/quant/formats/nvfp4.h"
#include "models/checkpoints/matrices.h"
#include "models/checkpoints/mxfp4_block.h"

namespace skald {
namespace {

constexpr int64_t kNvGroup = 16;

int code_at(const std::byte* row, int64_t col) {
  return static_cast<int>(row[col / 2]) >> (col % 2 * 4) & 15;
}

// weight = number × (scale of 16 columns × or ÷ the matrix's scale)
class Nvfp4Rows final : public FloatRows {
 public:
  struct Scales {
    Numbers of_groups;
    float of_matrix = 1;
    bool divides = false;
  };
  Nvfp4Rows(const Part& codes, const Scales& scales) : codes_(codes.bytes), scales_(scales) {}

  void read_row(int64_t row, std::span<float> out) const override {
    const int64_t cols = std::ssize(out);
    const std::byte* from = codes_.data() + row * cols / 2;
    for (int64_t first = 0; first < cols; first += kNvGroup) {
      const float group = scales_.of_groups.at((row * cols + first) / kNvGroup);
      const float scale = scales_.divides ? group / scales_.of_matrix : group * scales_.of_matrix;
      for (int64_t i = first; i < first + kNvGroup; ++i) {
        out[static_cast<size_t>(i)] = e2m1_to_f32(code_at(from, i)) * scale;
      }
    }
  }

 private:
  std::span<const std::byte> codes_;
  Scales scales_;
};

class Nvfp4Blocks final : public RowReader {
 public:
  Nvfp4Blocks(const Part& codes, const Part& groups, const Nvfp4Rows::Scales& scales)
      : codes_(codes.bytes.data()),
        groups_(groups.bytes.data()),
        row_blocks_(codes.shape[1] * 2 / BlockNVFP4::kElems),
        times_(scales.divides ? 1 : scales.of_matrix),
        over_(scales.divides ? scales.of_matrix : 1) {}

  void read_row(int64_t row, std::byte* out) const override {
    for (int64_t i = row * row_blocks_; i < (row + 1) * row_blocks_; ++i) {
      BlockNVFP4 block{times_, over_, {}, {}};
      std::memcpy(block.scales, groups_ + i * std::ssize(block.scales), sizeof block.scales);
      std::memcpy(block.q, codes_ + i * std::ssize(block.q), sizeof block.q);
      if (std::any_of(std::begin(block.scales), std::end(block.scales), is_e4m3_nan)) {
        block.times = std::numeric_limits<float>::quiet_NaN();
      }
      std::memcpy(out, &block, sizeof block);
      out += sizeof block;
    }
  }

 private:
  const std::byte *codes_, *groups_;
  int64_t row_blocks_;
  float times_, over_;
};

QuantizedMatrix make_nvfp4(const Parts& parts, const Part& codes, std::string_view of_matrix,
                           bool divides) {
  const int64_t rows = codes.shape[0], cols = codes.shape[1] * 2;
  if (cols % kNvGroup != 0) refuse_part(codes, "whole groups of 16 columns");
  const Part& groups = parts.get("weight_scale", {"F8_E4M3"}, {rows, cols / kNvGroup});
  const Part* matrix = parts.find(of_matrix);
  const bool scalar = matrix && matrix->shape.empty();
  const Part& one = scalar ? parts.get(of_matrix, {"F32"}, {}) : parts.get(of_matrix, {"F32"}, {1});
  const Nvfp4Rows::Scales scales{Numbers(groups), Numbers(one).at(0), divides};
  QuantizedMatrix made{
      .rows = rows, .cols = cols, .floats = std::make_unique<Nvfp4Rows>(codes, scales)};
  if (cols % BlockNVFP4::kElems == 0) {
    made.blocks = std::make_unique<Nvfp4Blocks>(codes, groups, scales);
    made.block_type = DType::NVFP4;
  }
  return made;
}

class Mxfp4Rows final : public RowReader {
 public:
  Mxfp4Rows(const Part& codes, const Part& scales, int64_t blocks)
      : codes_(codes.bytes.data()), scales_(scales.bytes.data()), blocks_(blocks) {}

  void read_row(int64_t row, std::byte* out) const override {
    for (int64_t i = row * blocks_; i < (row + 1) * blocks_; ++i, out += sizeof(BlockMXFP4)) {
      const BlockMXFP4 block = mxfp4_block(codes_ + i * kMxfp4Bytes, scales_[i]);
      std::memcpy(out, &block, sizeof block);
    }
  }

 private:
  const std::byte *codes_, *scales_;
  int64_t blocks_;
};

}  // namespace

QuantizedMatrix nvfp4_packed_matrix(const Parts& parts) {
  parts.refuse_others({"weight_packed", "weight_scale", "weight_global_scale"});
  const Part& codes = parts.get("weight_packed", {"U8"}, {kAny, kAny});
  return make_nvfp4(parts, codes, "weight_global_scale", true);
}

QuantizedMatrix nvfp4_matrix(const Parts& parts) {
  parts.refuse_others({"weight", "weight_scale", "weight_scale_2"});
  const Part& codes = parts.get("weight", {"U8"}, {kAny, kAny});
  return make_nvfp4(parts, codes, "weight_scale_2", false);
}

QuantizedMatrix mxfp4_matrix(const Parts& parts) {
  parts.refuse_others({"weight_packed", "weight_scale"});
  const Part& codes = parts.get("weight_packed", {"U8"}, {kAny, kAny});
  const int64_t rows = codes.shape[0], cols = codes.shape[1] * 2;
  if (cols % BlockMXFP4::kElems != 0) refuse_part(codes, "whole groups of 32 columns");
  const int64_t blocks = cols / BlockMXFP4::kElems;
  const Part& scales = parts.get("weight_scale", {"U8", "F8_E8M0"}, {rows, blocks});
  for (int64_t i = 0; i < rows * blocks; ++i) {
    if (scales.bytes[static_cast<size_t>(i)] != std::byte{255}) continue;
    refuse_part(scales, concat("exponents up to 254, but number ", i, " is 255 (not a number)"));
  }
  return {.rows = rows,
          .cols = cols,
          .blocks = std::make_unique<Mxfp4Rows>(codes, scales, blocks),
          .block_type = DType::MXFP4};
}

}  // namespace skald
