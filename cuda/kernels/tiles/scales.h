// The layout in memory of the scales of a record. Each part has kPartBytes, sorted by row pair:
// rows g and g + 8, which the same lanes multiply. Numbers of the whole record follow in
// kRecordBytes. part_word() and record_word() pack. number() makes a weight from its code with the
// operations of decode() in engine/quant, in the same order.
//
// source(row, block) is a pointer to a block of the file's format, or null beyond the matrix
// (BlockSource). A block has 32, 128 or 256 weights, so a part may be half of one block or hold
// several. Block, the template's argument, is the format's block, or NoBlock where several formats
// share a record.
#pragma once

#include "cuda/kernels/tiles/codes.h"
#include "engine/quant/formats/fp8.h"
#include "engine/quant/formats/iq4_xs.h"
#include "engine/quant/formats/mxfp4.h"
#include "engine/quant/formats/nvfp4.h"
#include "engine/quant/formats/q3_k.h"
#include "engine/quant/formats/q4_k_scales.h"
#include "engine/quant/formats/q6_k.h"

namespace skald::tiles {

// The blocks from which a record is packed. rows(r) is the first block of the group's row r, or
// null beyond the matrix.
template <class Rows>
struct BlockSource {
  Rows rows;
  int64_t blocks;  // of a row
  int64_t first;   // the record's first block

  SKALD_HD BlockSource(const Rows& rows, int64_t blocks, int64_t first)
      : rows(rows), blocks(blocks), first(first) {}
  // `block` counts from the record's first.
  SKALD_HD auto operator()(int row, int block) const -> decltype(rows(0)) {
    const auto* begin = rows(row);
    return begin && first + block < blocks ? begin + first + block : nullptr;
  }
};

SKALD_HD inline uint32_t load_bits(const std::byte* at, int bit, int bits) {
  uint32_t value = 0;
  for (int i = 0; i < bits; ++i) {
    value |= (static_cast<uint32_t>(at[(bit + i) / 8]) >> ((bit + i) % 8) & 1) << i;
  }
  return value;
}
SKALD_HD inline uint16_t load_f16(const std::byte* at) {
  return static_cast<uint16_t>(load_bits(at, 0, 16));
}

// One f16 scale for 32 columns. 16 bytes per row pair: for each unit row g, then row g + 8.
template <class Block>
struct F16Scales {
  static constexpr int kCols = 32, kPartBytes = 128, kRecordBytes = 0;
  template <class Source>
  SKALD_HD static uint32_t part_word(const Source& source, int, int i) {
    const Block *low = source(i / 4, i % 4), *high = source(i / 4 + 8, i % 4);
    return (low ? low->scale : 0u) | (high ? uint32_t{high->scale} << 16 : 0u);
  }
  template <class Source>
  SKALD_HD static uint32_t record_word(const Source&, int) {
    return 0;
  }
  SKALD_HD static float number(const std::byte* part, const std::byte*, int row, int col, int q) {
    return f16_to_f32(load_f16(part + row % 8 * 16 + col / 32 * 4 + row / 8 * 2)) * q;
  }
};

// Minimums lie as the left operand of a product with sums of activations: lane l has those of rows
// l / 4 and l / 4 + 8, for blocks 2 * (l % 2) and the next.

// An f16 scale and an f16 minimum for 32 columns. The scales lie as in F16Scales. Behind them, for
// each row pair and each two blocks: both minimums of row g, then both of row g + 8.
template <class Block>
struct F16Pairs {
  static constexpr int kCols = 32, kMinsAt = 128, kPartBytes = 256, kRecordBytes = 0;
  template <class Source>
  SKALD_HD static uint32_t part_word(const Source& source, int part, int i) {
    if (i < kMinsAt / 4) return F16Scales<Block>::part_word(source, part, i);
    i -= kMinsAt / 4;
    const int row = i / 4 + i % 2 * 8, b = i / 2 % 2 * 2;
    const Block *first = source(row, b), *second = source(row, b + 1);
    return (first ? first->min : 0u) | (second ? uint32_t{second->min} << 16 : 0u);
  }
  template <class Source>
  SKALD_HD static uint32_t record_word(const Source&, int) {
    return 0;
  }
  SKALD_HD static float number(const std::byte* part, const std::byte*, int row, int col, int q) {
    const int b = col / 32;
    const std::byte* min = part + kMinsAt + row % 8 * 16 + b / 2 * 8 + row / 8 * 4 + b % 2 * 2;
    const float scale = f16_to_f32(load_f16(part + row % 8 * 16 + b * 4 + row / 8 * 2));
    return scale * q + f16_to_f32(load_f16(min));
  }
};

// One exponent byte for 32 columns. 8 bytes per row pair: for each unit row g, then row g + 8.
struct ExponentScales {
  static constexpr int kCols = 32, kPartBytes = 64, kRecordBytes = 0;
  template <class Source>
  SKALD_HD static uint32_t part_word(const Source& source, int, int i) {
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      const BlockMXFP4* block = source(i / 2 + n % 2 * 8, i % 2 * 2 + n / 2);
      if (block) word |= uint32_t{block->exponent} << (8 * n);
    }
    return word;
  }
  template <class Source>
  SKALD_HD static uint32_t record_word(const Source&, int) {
    return 0;
  }
  SKALD_HD static float number(const std::byte* part, const std::byte*, int row, int col, int q) {
    return mxfp4_scale(load_bits(part, (row % 8 * 8 + col / 32 * 2 + row / 8) * 8, 8)) * q;
  }
};

// f16 has too few exponents for scales in float32. So gemm_q divides the scales of a weight row by
// a power of two, and multiplies the row's results by it. RowExponents stores the exponent of that
// power, with float32's bias, in a byte for each row: row g, then row g + 8 of each pair. It is the
// exponent of the row's largest scale; of_block() gives the float32 scale of a block.
struct RowExponents {
  static constexpr int kBytes = 16;
  template <class Source, class OfBlock>
  SKALD_HD static uint32_t word(const Source& source, int i, const OfBlock& of_block) {
    constexpr uint32_t kMost = 240;  // HalfFloatScales adds kMore; 254 less the sum is above 0
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      const auto* row = source.rows(i * 2 + n / 2 + n % 2 * 8);
      uint32_t largest = 1;
      for (int64_t b = 0; row && b < source.blocks; ++b) {
        const uint32_t exponent = f32_to_bits(of_block(row[b])) >> 23 & 255;
        largest = exponent > largest ? exponent : largest;
      }
      word |= (largest < kMost ? largest : kMost) << (8 * n);
    }
    return word;
  }
};
SKALD_HD inline float load_f32(const std::byte* at) { return bits_to_f32(load_bits(at, 0, 32)); }
// A float32 for each row: 8 bytes per row pair, row g, then row g + 8.
struct RowFloats {
  static constexpr int kBytes = 64;
  SKALD_HD static constexpr int row(int i) { return i / 2 + i % 2 * 8; }  // of the i-th
  SKALD_HD static float at(const std::byte* floats, int row) {
    return load_f32(floats + row % 8 * 8 + row / 8 * 4);
  }
};

// FP8: a float32 scale for 128 columns.
struct FloatScales {
  static constexpr int kCols = kPartCols, kPartBytes = RowFloats::kBytes;
  static constexpr int kExponentsAt = 0, kRecordBytes = RowExponents::kBytes;
  template <class Source>
  SKALD_HD static uint32_t part_word(const Source& source, int part, int i) {
    const BlockFP8* block = source(RowFloats::row(i), part);
    return block ? f32_to_bits(block->scale) : 0;
  }
  template <class Source>
  SKALD_HD static uint32_t record_word(const Source& source, int i) {
    return RowExponents::word(source, i, [](const BlockFP8& block) { return block.scale; });
  }
  SKALD_HD static float number(const std::byte* part, const std::byte*, int row, int, float q) {
    return RowFloats::at(part, row) * q;
  }
};

// The f16 scale of a block of 256 weights. IQ1_M has its own overload.
template <class Block>
SKALD_HD uint16_t scale_bits(const Block& block) {
  return block.scale;
}

// One f16 scale for 256 columns: row g, then row g + 8.
struct RowScale {
  static constexpr int kRecordBytes = 32;
  template <class Source>
  SKALD_HD static uint32_t record_word(const Source& source, int i) {
    const auto *low = source(i, 0), *high = source(i + 8, 0);
    return (low ? scale_bits(*low) : 0u) | (high ? uint32_t{scale_bits(*high)} << 16 : 0u);
  }
  SKALD_HD static float row_scale(const std::byte* record, int row) {
    return f16_to_f32(load_f16(record + row % 8 * 4 + row / 8 * 2));
  }
};

// An f16 scale and an f16 minimum for 256 columns: both of row g, then both of row g + 8.
template <class Block>
struct RowScaleMin {
  static constexpr int kRecordBytes = 64;
  template <class Source>
  SKALD_HD static uint32_t record_word(const Source& source, int i) {
    const Block* block = source(i / 2 + i % 2 * 8, 0);
    return block ? block->scale | uint32_t{block->min} << 16 : 0u;
  }
  SKALD_HD static float row_scale(const std::byte* record, int row) {
    return f16_to_f32(load_f16(record + row % 8 * 8 + row / 8 * 4));
  }
  SKALD_HD static float row_min(const std::byte* record, int row) {
    return f16_to_f32(load_f16(record + row % 8 * 8 + row / 8 * 4 + 2));
  }
};

// Scales of one byte lie in words of two blocks: two bytes of row g, then two of row g + 8.
// BytePlace is the row and the block of byte n of word i.
struct BytePlace {
  int row, block;
  SKALD_HD BytePlace(int g, int i, int n) : row(g + n / 2 * 8), block(i * 2 + n % 2) {}
};
// The place of block b's byte among the bytes of its row pair.
SKALD_HD constexpr int byte_place(int b, int half) { return b / 2 * 4 + half * 2 + b % 2; }

// Q4_K, Q5_K: a scale and a minimum for 32 columns. The format's blocks have six bits for each.
// Here each has a byte, because unpacking took a third of a product's instructions. 8 scales per
// row pair; after the scales of all row pairs, 8 minimums per row pair.
template <class Block>
struct BytePairs : RowScaleMin<Block> {
  static constexpr int kCols = 32, kMinsAt = 64, kPartBytes = 128;
  template <class Source>
  SKALD_HD static uint32_t part_word(const Source& source, int part, int i) {
    const bool mins = i >= kMinsAt / 4;
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      const BytePlace at(i % 16 / 2, i % 2, n);
      const Block* block = source(at.row, 0);
      if (!block) continue;
      const int group = part * kUnits + at.block;
      const int value = mins ? q4_k_min(block->scales, group) : q4_k_scale(block->scales, group);
      word |= static_cast<uint32_t>(value) << (8 * n);
    }
    return word;
  }
  SKALD_HD static float number(const std::byte* part, const std::byte* record, int row, int col,
                               int q) {
    const int b = col / 32;
    const std::byte* at = part + row % 8 * 8 + byte_place(b, row / 8);
    const int scale = static_cast<int>(at[0]), min = static_cast<int>(at[kMinsAt]);
    return RowScaleMin<Block>::row_scale(record, row) * scale * q -
           RowScaleMin<Block>::row_min(record, row) * min;
  }
};

// Four of the bytes that blocks have for 16 columns each.
template <class Source>
SKALD_HD uint32_t scale_bytes_word(const Source& source, int part, int i) {
  uint32_t word = 0;
  for (int n = 0; n < 4; ++n) {
    const BytePlace at(i / 4, i % 4, n);
    const auto* block = source(at.row, 0);
    if (block) word |= uint32_t{block->scales[part * 8 + at.block]} << (8 * n);
  }
  return word;
}

// Q2_K: a byte for 16 columns, four bits of scale and four of minimum. 16 bytes per row pair.
template <class Block>
struct FourBitPairs : RowScaleMin<Block> {
  static constexpr int kCols = 16, kPartBytes = 128;
  template <class Source>
  SKALD_HD static uint32_t part_word(const Source& source, int part, int i) {
    return scale_bytes_word(source, part, i);
  }
  SKALD_HD static float number(const std::byte* part, const std::byte* record, int row, int col,
                               int q) {
    const int both = static_cast<int>(part[row % 8 * 16 + byte_place(col / 16, row / 8)]);
    return RowScaleMin<Block>::row_scale(record, row) * (both & 15) * q -
           RowScaleMin<Block>::row_min(record, row) * (both >> 4);
  }
};

// The signed scale of a block's i-th 16 columns.
SKALD_HD inline int byte_scale(const BlockQ6_K& block, int i) { return block.scales[i]; }
SKALD_HD inline int byte_scale(const BlockQ3_K& block, int i) { return q3_k_scale(block, i) - 32; }

// A signed byte for 16 columns, 16 bytes per row pair. Q6_K and Q3_K: the format's Q3_K block has
// six bits for it; unpacking took a seventh of a product's instructions. The formats of eighths.h:
// the numbers of the codes are kDivisor times too large.
template <class Block, int kDivisor = 1>
struct ByteScales : RowScale {
  static constexpr int kCols = 16, kPartBytes = 128;
  static constexpr float kUnit = 1.0f / kDivisor;
  template <class Source>
  SKALD_HD static uint32_t part_word(const Source& source, int part, int i) {
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      const BytePlace at(i / 4, i % 4, n);
      const auto* block = source(at.row, 0);
      if (!block) continue;
      const int scale = byte_scale(*block, part * 8 + at.block);
      word |= uint32_t{static_cast<uint8_t>(scale)} << (8 * n);
    }
    return word;
  }
  SKALD_HD static float number(const std::byte* part, const std::byte* record, int row, int col,
                               int q) {
    const auto scale = static_cast<int8_t>(part[row % 8 * 16 + byte_place(col / 16, row / 8)]);
    return row_scale(record, row) * scale * q * kUnit;
  }
};

// NVFP4: a byte for 16 columns, E4M3, 16 bytes per row pair. For 256 columns, the two float32 that
// they are multiplied and divided by.
struct E4m3Scales {
  static constexpr int kCols = 16, kPartBytes = 128;
  static constexpr int kOverAt = RowFloats::kBytes, kExponentsAt = 2 * RowFloats::kBytes;
  static constexpr int kRecordBytes = kExponentsAt + RowExponents::kBytes;
  template <class Source>
  SKALD_HD static uint32_t part_word(const Source& source, int part, int i) {
    return scale_bytes_word(source, part, i);
  }
  template <class Source>
  SKALD_HD static uint32_t record_word(const Source& source, int i) {
    constexpr int kFloats = RowFloats::kBytes / 4;
    if (i >= 2 * kFloats) {
      return RowExponents::word(source, i - 2 * kFloats,
                                [](const BlockNVFP4& block) { return block.times / block.over; });
    }
    const BlockNVFP4* block = source(RowFloats::row(i % kFloats), 0);
    return f32_to_bits(!block        ? (i < kFloats ? 0.0f : 1.0f)
                       : i < kFloats ? block->times
                                     : block->over);
  }
  SKALD_HD static float number(const std::byte* part, const std::byte* record, int row, int col,
                               float q) {
    const auto scale = static_cast<uint8_t>(part[row % 8 * 16 + byte_place(col / 16, row / 8)]);
    return q * nvfp4_scale(scale, RowFloats::at(record, row), RowFloats::at(record + kOverAt, row));
  }
};

SKALD_HD inline int byte_scale(const BlockIQ4_XS& block, int i) {
  return iq4_xs_scale(block, i) - 32;
}

// IQ4_XS, IQ3_S, IQ3_XXS: a signed byte for 32 columns, 8 bytes per row pair. The numbers of
// IQ3_XXS are twice too large.
template <class Block, int kDivisor = 1>
struct ByteScales32 : RowScale {
  static constexpr int kCols = 32, kPartBytes = 64;
  static constexpr float kUnit = 1.0f / kDivisor;
  template <class Source>
  SKALD_HD static uint32_t part_word(const Source& source, int part, int i) {
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      const BytePlace at(i / 2, i % 2, n);
      const Block* block = source(at.row, 0);
      if (!block) continue;
      const int scale = byte_scale(*block, part * kUnits + at.block);
      word |= uint32_t{static_cast<uint8_t>(scale)} << (8 * n);
    }
    return word;
  }
  SKALD_HD static float number(const std::byte* part, const std::byte* record, int row, int col,
                               int q) {
    const auto scale = static_cast<int8_t>(part[row % 8 * 8 + byte_place(col / 32, row / 8)]);
    return row_scale(record, row) * scale * q * kUnit;
  }
};

}  // namespace skald::tiles
