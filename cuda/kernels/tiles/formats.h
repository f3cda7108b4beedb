// The layout of each block format: its codes, its scales, and the offset that is subtracted from a
// code.
#pragma once

#include <type_traits>

#include "cuda/kernels/tiles/scales.h"
#include "engine/quant/dtype_enum.h"
#include "engine/quant/formats/iq1_m.h"
#include "engine/quant/formats/iq1_s.h"
#include "engine/quant/formats/iq2_s.h"
#include "engine/quant/formats/iq2_xs.h"
#include "engine/quant/formats/iq2_xxs.h"
#include "engine/quant/formats/iq3_s.h"
#include "engine/quant/formats/iq3_xxs.h"
#include "engine/quant/formats/iq4_nl.h"
#include "engine/quant/formats/q2_k.h"
#include "engine/quant/formats/q3_k.h"
#include "engine/quant/formats/q4_0.h"
#include "engine/quant/formats/q4_1.h"
#include "engine/quant/formats/q4_k.h"
#include "engine/quant/formats/q5_0.h"
#include "engine/quant/formats/q5_1.h"
#include "engine/quant/formats/q5_k.h"
#include "engine/quant/formats/q6_k.h"
#include "engine/quant/formats/q8_0.h"
#include "engine/quant/formats/tq1_0.h"
#include "engine/quant/formats/tq2_0.h"

namespace skald::tiles {

// InRecord: a table of eight numbers that lies in each record, so that formats with different
// tables have the same kernels.
enum class Table : uint8_t { None, Iq4, Mxfp4, Iq3, Iq3Xxs, InRecord };
// A record's table: eight bytes with the numbers plus kInRecordOffset, then the numbers as signed
// bytes.
inline constexpr int kInRecordBytes = 16, kInRecordOffset = 64;

// Codes of a table are stored with bits 2 and 3 exchanged; table_code() converts either way. Two
// IQ4 numbers whose stored codes differ in bit 3 alone have the same sign, which LaneTable needs.
SKALD_HD constexpr int table_code(int code) {
  return (code & 3) | (code & 4) << 1 | (code & 8) >> 1;
}

// The number that a stored code of a table stands for.
template <Table kTable>
SKALD_HD constexpr int table_number(int kept) {
  const int code = table_code(kept);
  if constexpr (kTable == Table::Iq4) return iq4_value(code);
  if constexpr (kTable == Table::Iq3) return iq3_value(code);
  if constexpr (kTable == Table::Iq3Xxs) return iq3_xxs_value(code);
  const int magnitude = static_cast<int>((0x0c08060403020100u >> (code % 8 * 8)) & 15);
  return code < 8 ? magnitude : -magnitude;
}

// kOff is subtracted from a code. The numbers of a table get kOff added before they are multiplied,
// since the product takes unsigned bytes.
template <class B, class C, class S, int kOff, bool kMin, Table kTab = Table::None>
struct Format {
  using Codes = C;
  using Scales = S;
  static constexpr int kOffset = kOff;
  static constexpr bool kHasMin = kMin;
  static constexpr Table kTable = kTab;
  static constexpr bool kTableInRecord = kTab == Table::InRecord;
  static constexpr bool kFloats = requires { C::number(0); };  // codes are floats
  static constexpr int kRecordCols = B::kElems > kPartCols ? B::kElems : kPartCols;
  static constexpr int kParts = kRecordCols / kPartCols;
  static constexpr int kScalesAt = kParts * C::kBytes;
  static constexpr int kRowsAt = kScalesAt + kParts * S::kPartBytes;
  static constexpr int kTableAt = kRowsAt + S::kRecordBytes;
  static constexpr int kRecordBytes = kTableAt + (kTableInRecord ? kInRecordBytes : 0);
  static_assert(kRecordBytes % 16 == 0);
  static_assert(!kTableInRecord || kOff == kInRecordOffset);

  // The i-th word of a record. `source` is a BlockSource; the blocks' type is B or, if B is a
  // NoBlock, that of any format with this record.
  template <class Source>
  SKALD_HD static uint32_t word(const Source& source, int i) {
    constexpr int kCodeWords = C::kBytes / 4, kScaleWords = S::kPartBytes / 4;
    if (i < kScalesAt / 4) {
      const int first = i / kCodeWords * kPartCols;
      const auto code_at = [&](int row, int col) {
        const auto* block = source(row, (first + col) / B::kElems);
        const int plain = block ? code(*block, (first + col) % B::kElems) : 0;
        return kTable == Table::None || kTableInRecord ? plain : table_code(plain);
      };
      return C::word(code_at, i % kCodeWords);
    }
    i -= kScalesAt / 4;
    if (i < kParts * kScaleWords) {
      return S::part_word(source, i / kScaleWords, i % kScaleWords);
    }
    i -= kParts * kScaleWords;
    if constexpr (kTableInRecord) {
      using Packed = std::remove_cvref_t<decltype(*source(0, 0))>;
      constexpr int kRowWords = S::kRecordBytes / 4;
      if (i >= kRowWords) return table_word<Packed>(i - kRowWords);
    }
    return S::record_word(source, i);
  }

  SKALD_HD static float value(const std::byte* record, int row, int col) {
    const int part = col / kPartCols;
    const int code = C::at(record + part * C::kBytes, row, col % kPartCols);
    const auto number = number_of(record, code);
    return S::number(record + kScalesAt + part * S::kPartBytes, record + kRowsAt, row,
                     col % kPartCols, number);
  }

 private:
  // The i-th word of the table of a format's codes.
  template <class Packed>
  SKALD_HD static uint32_t table_word(int i) {
    constexpr uint64_t kNumbers = Packed::kNumbers;
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      const int number = signed_byte(kNumbers, i % 2 * 4 + n) + (i < 2 ? kOffset : 0);
      word |= uint32_t{static_cast<uint8_t>(number)} << (8 * n);
    }
    return word;
  }
  SKALD_HD static auto number_of(const std::byte* record, int code) {
    if constexpr (kFloats) {
      return C::number(code);
    } else if constexpr (kTableInRecord) {
      return static_cast<int>(record[kTableAt + code]) - kOffset;
    } else {
      return kTable == Table::None ? code - kOffset : table_number<kTable>(code);
    }
  }
};

// Stands for the blocks of several formats in one record.
template <int kBlockElems>
struct NoBlock {
  static constexpr int kElems = kBlockElems;
};

using Q8_0 = Format<BlockQ8_0, EightBits, F16Scales<BlockQ8_0>, 128, false>;
using Q4_0 = Format<BlockQ4_0, Codes1<FourBits<>>, F16Scales<BlockQ4_0>, 8, false>;
using Q4_1 = Format<BlockQ4_1, Codes1<FourBits<>>, F16Pairs<BlockQ4_1>, 0, true>;
using Codes5 = Codes2<FourBits<>, OneBit<4>, 4>;
using Q5_0 = Format<BlockQ5_0, Codes5, F16Scales<BlockQ5_0>, 16, false>;
using Q5_1 = Format<BlockQ5_1, Codes5, F16Pairs<BlockQ5_1>, 0, true>;
using Q2_K = Format<BlockQ2_K, Codes1<TwoBitsBy16>, FourBitPairs<BlockQ2_K>, 0, true>;
using Q3_K = Format<BlockQ3_K, Codes1<ThreeBitsBy16>, ByteScales<BlockQ3_K>, 4, false>;
using Q4_K = Format<BlockQ4_K, Codes1<FourBits<>>, BytePairs<BlockQ4_K>, 0, true>;
using Q5_K = Format<BlockQ5_K, Codes5, BytePairs<BlockQ5_K>, 0, true>;
using Q6_K = Format<BlockQ6_K, Codes2<FourBits<>, TwoBits<4>, 4>, ByteScales<BlockQ6_K>, 32, false>;
using IQ4_NL = Format<BlockIQ4_NL, TableCodes, F16Scales<BlockIQ4_NL>, 128, false, Table::Iq4>;
using IQ4_XS = Format<BlockIQ4_XS, TableCodes, ByteScales32<BlockIQ4_XS>, 128, false, Table::Iq4>;
using MXFP4 = Format<BlockMXFP4, TableCodes, ExponentScales, 12, false, Table::Mxfp4>;
using FP8 = Format<BlockFP8, E4m3Codes, FloatScales, 0, false>;
using NVFP4 = Format<BlockNVFP4, E2m1Codes, E4m3Scales, 0, false>;
using IQ3_S = Format<BlockIQ3_S, TableCodes, ByteScales32<BlockIQ3_S>, 16, false, Table::Iq3>;
using IQ3_XXS =
    Format<BlockIQ3_XXS, TableCodes, ByteScales32<BlockIQ3_XXS, 2>, 32, false, Table::Iq3Xxs>;
// The formats of eighths.h: 3.6 bits per weight.
using Eighths = Format<NoBlock<256>, TableCodes3, ByteScales<NoBlock<256>, 8>, kInRecordOffset,
                       false, Table::InRecord>;
using IQ2_XXS = Eighths;
using IQ2_XS = Eighths;
using IQ2_S = Eighths;
using IQ1_S = Eighths;
using IQ1_M = Eighths;
using TQ1_0 = Eighths;
using TQ2_0 = Eighths;

// All block formats. The kernels and their tests follow from this list.
// clang-format off
#define SKALD_TILE_FORMATS(X) \
  X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) \
  X(IQ4_NL) X(IQ4_XS) X(MXFP4) X(FP8) X(NVFP4) X(IQ3_S) X(IQ3_XXS) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) \
  X(IQ1_S) X(IQ1_M) X(TQ1_0) X(TQ2_0)
// clang-format on

// A format's tiles F and the blocks of the format's files, which are packed into tiles.
template <class F, class B>
struct Packed {
  using Tiles = F;
  using Block = B;
};

// Calls fn with a Packed of the format. Returns false if `type` is no block format. The switch has
// no default, so that a format without a line here does not compile.
template <class Fn>
bool dispatch_blocks(DType type, const Fn& fn) {
  switch (type) {
#define SKALD_CASE(F)          \
  case DType::F:               \
    fn(Packed<F, Block##F>()); \
    return true;
    SKALD_TILE_FORMATS(SKALD_CASE)
#undef SKALD_CASE
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      return false;
  }
  return false;
}

// Calls fn with a value of the format's type: formats with the same record have the same kernels.
template <class Fn>
bool dispatch(DType type, const Fn& fn) {
  return dispatch_blocks(type, [&]<class F, class B>(Packed<F, B>) { fn(F()); });
}

}  // namespace skald::tiles
