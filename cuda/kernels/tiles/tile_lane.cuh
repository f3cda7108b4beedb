// The share of a part of a tile that one lane of a warp holds: codes as fragments of a matrix
// product, scales as floats. Masks and byte moves alone turn codes into the f16 numbers code *
// 2^-24. Used by gemv_q, gemm_q, experts and tiles.
#pragma once

#include <type_traits>

#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/tiles/formats.h"

namespace skald::cuda {

__device__ inline float low_half(uint32_t both) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(both & 0xffff)));
}
__device__ inline float high_half(uint32_t both) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(both >> 16)));
}
__device__ inline uint4 load16(const char* at) { return *reinterpret_cast<const uint4*>(at); }
__device__ inline uint2 load8(const char* at) { return *reinterpret_cast<const uint2*>(at); }
__device__ inline uint32_t load4(const char* at) { return *reinterpret_cast<const uint32_t*>(at); }

__device__ inline uint32_t move(uint32_t word, int from, int to) {
  return from >= to ? word >> (from - to) : word << (to - from);
}

// (word & mask) | with, as one instruction. The compiler makes two if `mask` and `with` are
// constants.
__device__ inline uint32_t masked(uint32_t word, uint32_t mask, uint32_t with) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(with));
  return result;
}

__device__ inline __half2 half2_of(uint32_t bits) {
  return *reinterpret_cast<const __half2*>(&bits);
}
// Four numbers of E4M3 as f16 numbers.
__device__ inline void e4m3_halves(uint32_t bytes, __half2 (&pairs)[2]) {
#if __CUDA_ARCH__ >= 900  // sm_89 has it too, but not with CUDA 12.0
  uint32_t bits[2];
  asm("{.reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\n"
      "cvt.rn.f16x2.e4m3x2 %1, high;}"
      : "=r"(bits[0]), "=r"(bits[1])
      : "r"(bytes));
  pairs[0] = half2_of(bits[0]), pairs[1] = half2_of(bits[1]);
#else
  // The same bits in the places of f16 are the number times 2^-8.
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t moved = __byte_perm(bytes, 0, i ? 0x3424 : 0x1404);
    pairs[i] = __hmul2(half2_of(masked(moved, 0x80008000, (moved & 0x7f007f00) >> 1)),
                       __float2half2_rn(256));
  }
#endif
}

// LaneCodes<C>::pairs() gives a row's two pairs of codes in 16 columns (half m of a unit):
// registers `half` and half + 2 of the fragment. half 0 is row lane / 4, half 1 is row lane / 4 +
// 8.
template <class C>
struct LaneCodes;

// Planes of four bits: pair_mask(p) keeps the p-th pair of a unit in shifted(unit, half, p).
template <int kFirstBit>
struct LaneCodes<tiles::FourBits<kFirstBit>> {
  uint4 w[2];
  __device__ void load(const char* codes, int lane) {
    w[0] = load16(codes + lane * 16);
    w[1] = load16(codes + 512 + lane * 16);
  }
  __device__ uint32_t word(int unit, int half) const {
    const uint4& both = w[unit / 2];
    return unit % 2 ? (half ? both.w : both.z) : (half ? both.y : both.x);
  }
  __device__ uint32_t shifted(int unit, int half, int p) const {
    return word(unit, half) >> (p / 2 * 8);
  }
  SKALD_HD static constexpr uint32_t pair_mask(int p) { return p % 2 ? 0x00f000f0 : 0x000f000f; }
};

// Planes grouped by 16 columns: word(unit, m, half) has a unit's first (m = 0) or last 16 columns.
// Shifted right by the plane's shift(unit), they are the kMask bits of each byte.
template <>
struct LaneCodes<tiles::TwoBitsBy16> {
  static constexpr uint32_t kMask = 3;
  uint4 w;
  __device__ void load(const char* codes, int lane) { w = load16(codes + lane * 16); }
  __device__ uint32_t word(int, int m, int half) const {
    return m ? (half ? w.w : w.z) : (half ? w.y : w.x);
  }
  __device__ uint32_t shifted(int unit, int half, int p) const {
    return word(unit, p / 2, half) >> tiles::TwoBitsBy16::shift(unit);
  }
  SKALD_HD static constexpr uint32_t pair_mask(int p) { return kMask * 0x00010001 << p % 2 * 8; }
};

// The words of three units. Those of the fourth are made of bits that these leave free.
__device__ inline void load_three_units(uint32_t (&w)[4][2], const char* first,
                                        const char* second) {
  const uint4 four = load16(first);
  const uint2 two = load8(second);
  w[0][0] = four.x, w[0][1] = four.y, w[1][0] = four.z, w[1][1] = four.w;
  w[2][0] = two.x, w[2][1] = two.y;
}

template <>
struct LaneCodes<tiles::ThreeBitsBy16> {
  static constexpr uint32_t kMask = 7;
  uint32_t w[4][2];
  __device__ void load(const char* codes, int lane) {
    load(codes + lane * 16, codes + tiles::ThreeBitsBy16::kSecondAt + lane * 8);
  }
  __device__ void load(const char* first, const char* second) {
    load_three_units(w, first, second);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      w[3][half] = (w[0][half] >> 6 & 0x03030303) | (w[1][half] >> 4 & 0x0c0c0c0c) |
                   (w[2][half] >> 2 & 0x30303030);
    }
  }
  __device__ uint32_t word(int unit, int m, int half) const { return w[unit / 2 * 2 + m][half]; }
  __device__ uint32_t shifted(int unit, int half, int p) const {
    return word(unit, p / 2, half) >> (tiles::ThreeBitsBy16::shift(unit) + p % 2 * 8);
  }
  SKALD_HD static constexpr uint32_t pair_mask(int) { return kMask * 0x00010001; }
};

template <int kFirstBit>
struct LaneCodes<tiles::TwoBits<kFirstBit>> {
  uint4 w;
  __device__ void load(const char* codes, int lane) { w = load16(codes + lane * 16); }
  __device__ uint32_t word(int unit, int half) const {
    return half ? (unit / 2 ? w.w : w.z) : (unit / 2 ? w.y : w.x);
  }
  static constexpr uint32_t kMask = 0x00030003;
  // The upper bits of pairs 2 * m and the next, moved to their places above the low bits.
  __device__ uint32_t moved(int unit, int half, int m) const {
    return move(word(unit, half), tiles::pairs_at<2>(unit % 2 * 2 + m, kFirstBit), kFirstBit);
  }
};

template <int kFirstBit>
struct LaneCodes<tiles::OneBit<kFirstBit>> {
  uint2 w;
  __device__ void load(const char* codes, int lane) { w = load8(codes + lane * 8); }
  static constexpr uint32_t kMask = 0x00010001;
  __device__ uint32_t word(int, int half) const { return half ? w.y : w.x; }
  __device__ uint32_t moved(int unit, int half, int m) const {
    return move(word(unit, half), tiles::pairs_at<1>(unit * 2 + m, kFirstBit), kFirstBit);
  }
};

template <class Plane>
struct LaneCodes<tiles::Codes1<Plane>> {
  LaneCodes<Plane> low;
  __device__ void load(const char* codes, int lane) { low.load(codes, lane); }
  __device__ void pairs(int unit, int half, int m, uint32_t& first, uint32_t& second) const {
    first = low.shifted(unit, half, 2 * m) & low.pair_mask(0);
    second = low.shifted(unit, half, 2 * m + 1) & low.pair_mask(1);
  }
  // pairs() without the odd pair's factor, combined with `bits`.
  __device__ void even_pairs(int unit, int half, int m, uint32_t bits, uint32_t (&two)[2]) const {
    constexpr int kOdd = Plane::kOddScale == 1 ? 0 : Plane::kOddScale == 16 ? 4 : 8;
    static_assert(1 << kOdd == Plane::kOddScale);
    two[0] = masked(low.shifted(unit, half, 2 * m), low.pair_mask(0), bits);
    two[1] = masked(low.shifted(unit, half, 2 * m + 1) >> kOdd, low.pair_mask(1) >> kOdd, bits);
  }
};

template <class Low, class High, int kBits>
struct LaneCodes<tiles::Codes2<Low, High, kBits>> {
  LaneCodes<Low> low;
  LaneCodes<High> high;
  __device__ void load(const char* codes, int lane) {
    low.load(codes, lane);
    high.load(codes + Low::kBytes, lane);
  }
  __device__ void pairs(int unit, int half, int m, uint32_t& first, uint32_t& second) const {
    static_assert(Low::kOddScale == 1 << High::kApart && kBits == High::kApart);
    const uint32_t both = high.moved(unit, half, m);
    constexpr uint32_t kMask = LaneCodes<High>::kMask;
    const uint32_t lower = low.shifted(unit, half, 2 * m);
    first = (lower & low.pair_mask(0)) | (both & kMask << kBits);
    second = (lower & low.pair_mask(1)) | (both & kMask << (2 * kBits));
  }
};

// Spreads four bytes over two pairs.
__device__ inline void spread_bytes(uint32_t bytes, uint32_t& first, uint32_t& second) {
  first = __byte_perm(bytes, 0, 0x4140);
  second = __byte_perm(bytes, 0, 0x4342);
}

template <>
struct LaneCodes<tiles::EightBits> {
  uint4 w[4];
  __device__ void load(const char* codes, int lane) {
#pragma unroll
    for (int unit = 0; unit < 4; ++unit) w[unit] = load16(codes + unit * 512 + lane * 16);
  }
  __device__ void pairs(int unit, int half, int m, uint32_t& first, uint32_t& second) const {
    const uint4& four = w[unit];
    spread_bytes(m ? (half ? four.w : four.z) : (half ? four.y : four.x), first, second);
  }
};

// Codes that are floats: raw() gives the two pairs of numbers of a row's 16 columns (half m of a
// unit) times kRaw, as f16 numbers, exactly.
template <>
struct LaneCodes<tiles::E4m3Codes> : LaneCodes<tiles::EightBits> {
  static constexpr float kRaw = 1;
  __device__ void raw(int unit, int half, int m, __half2 (&pairs)[2]) const {
    const uint4& four = w[unit];
    e4m3_halves(m ? (half ? four.w : four.z) : (half ? four.y : four.x), pairs);
  }
};

// The bits of E2M1 in the places of E4M3 are the number times 2^-6.
template <>
struct LaneCodes<tiles::E2m1Codes> {
  static constexpr float kRaw = 0x1p-6f;
  LaneCodes<tiles::FourBits<>> bytes;
  __device__ void load(const char* codes, int lane) { bytes.load(codes, lane); }
  __device__ void raw(int unit, int half, int m, __half2 (&pairs)[2]) const {
    const uint32_t word = bytes.word(unit, half);
    e4m3_halves(m == 0 ? word & 0x9c9c9c9c : masked(word << 2, 0x8c8c8c8c, word >> 2 & 0x10101010),
                pairs);
  }
};

// Codes that index a table: gives kTable's numbers plus kOffset, as bytes. One byte permutation
// (prmt) finds one of eight numbers, so each code is looked up twice: `low` among the first eight
// numbers, `high` among the last eight. The exclusive or of both is the number:
// - For a code below 8, `low` is the number. `high` is the sign of one of the last eight entries,
//   which is zero: entries from 128 on are stored inverted there.
// - For a code from 8 on, `high` is the entry, inverted if the number is 128 or more. `low` is the
//   sign of the entry 8 before, in all bits. Both numbers have the same sign (signs_agree()), so
//   `low` inverts `high` back.
template <tiles::Table kTable, int kOffset>
struct LaneTable {
  LaneCodes<tiles::FourBits<>> codes;
  uint32_t first_low = entries(0), first_high = entries(8);  // may be held in registers
  __device__ void load(const char* at, int lane) { codes.load(at, lane); }
  SKALD_HD static constexpr int entry(int code) {
    const int number = tiles::table_number<kTable>(code) + kOffset;
    return code < 8 || number < 128 ? number : number ^ 255;
  }
  SKALD_HD static constexpr uint32_t entries(int first) {
    uint32_t bytes = 0;
    for (int i = 0; i < 4; ++i) bytes |= static_cast<uint32_t>(entry(first + i)) << (8 * i);
    return bytes;
  }
  SKALD_HD static constexpr bool signs_agree() {
    for (int i = 0; i < 8; ++i) {
      const int number = tiles::table_number<kTable>(i) + kOffset;
      const int other = tiles::table_number<kTable>(i + 8) + kOffset;
      if (number < 0 || other < 0 || number > 255 || other > 255 || (number ^ other) & 128) {
        return false;
      }
    }
    return true;
  }
  __device__ void pairs(int unit, int half, int m, uint32_t& first, uint32_t& second) const {
    uint32_t low, high;
    choose(codes.word(unit, half) >> (16 * m), low, high);
    first = exclusive_or(low, high, 0x00ff00ff);
    second = exclusive_or(low, high, 0xff00ff00) >> 8;
  }
  // The numbers of the four lower codes of a word.
  __device__ uint32_t four(uint32_t at) const {
    uint32_t low, high;
    choose(at, low, high);
    return low ^ high;
  }

 private:
  __device__ void choose(uint32_t at, uint32_t& low, uint32_t& high) const {
    static_assert(signs_agree());
    constexpr uint32_t k4 = entries(4), k12 = entries(12);
    low = choose_bytes(first_low, k4, at);
    high = choose_bytes(first_high, k12, at ^ 0x8888);
  }
};

// Codes of three bits that index a record's table: gives the numbers plus kInRecordOffset, as
// bytes. load() is followed by load_table().
struct LaneInRecord {
  uint32_t w[tiles::kUnits][2];
  uint2 table;
  __device__ void load(const char* at, int lane) {
    load(at + lane * 16, at + tiles::TableCodes3::kSecondAt + lane * 8);
  }
  __device__ void load(const char* first, const char* second) {
    load_three_units(w, first, second);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      w[3][half] = (w[0][half] >> 3 & 0x11111111) | (w[1][half] >> 2 & 0x22222222) |
                   (w[2][half] >> 1 & 0x44444444);
#pragma unroll
      for (int unit = 0; unit < 3; ++unit) w[unit][half] &= 0x77777777;
    }
  }
  __device__ void load_table(const char* at) { table = load8(at); }
  __device__ void pairs(int unit, int half, int m, uint32_t& first, uint32_t& second) const {
    const uint32_t four = choose_bytes(table.x, table.y, w[unit][half] >> (16 * m));
    first = four & 0x00ff00ff;
    second = four >> 8 & 0x00ff00ff;
  }
};

// LaneScales<S>: scales as floats. scale(b, half) is for block `b` (of kCols columns) of the part
// and row lane / 4 (half 0) or lane / 4 + 8 (half 1). A weight is row(half) * scale(b, half) *
// number - row_min(half) * minimum. LaneMins (lane_mins.cuh) has the minimums.
template <class S>
struct LaneScales;

struct NoRowScales {
  __device__ void load_rows(const char*, int) {}
  __device__ float row(int) const { return 1; }
  __device__ float row_min(int) const { return -1; }
};

template <class Block>
struct LaneScales<tiles::F16Scales<Block>> : NoRowScales {
  uint4 w;
  __device__ void load(const char* part, int lane) { w = load16(part + lane / 4 * 16); }
  __device__ float scale(int b, int half) const {
    const uint32_t both = b / 2 ? (b % 2 ? w.w : w.z) : (b % 2 ? w.y : w.x);
    return half ? high_half(both) : low_half(both);
  }
};

template <class Block>
struct LaneScales<tiles::F16Pairs<Block>> : LaneScales<tiles::F16Scales<Block>> {};

template <>
struct LaneScales<tiles::ExponentScales> : NoRowScales {
  uint2 w;
  __device__ void load(const char* part, int lane) { w = load8(part + lane / 4 * 8); }
  __device__ float scale(int b, int half) const {
    return mxfp4_scale((b / 2 ? w.y : w.x) >> (b % 2 * 16 + half * 8) & 255);
  }
};

template <int kDivisor>
struct RowScalesOf {
  uint32_t rows;
  __device__ void load_rows(const char* record, int lane) { rows = load4(record + lane / 4 * 4); }
  __device__ float row(int half) const {
    return (half ? high_half(rows) : low_half(rows)) * (1.0f / kDivisor);
  }
};

struct RowScalesMins {
  uint2 rows;
  __device__ void load_rows(const char* record, int lane) { rows = load8(record + lane / 4 * 8); }
  __device__ float row(int half) const { return low_half(half ? rows.y : rows.x); }
  __device__ float row_min(int half) const { return high_half(half ? rows.y : rows.x); }
};

template <class Block>
struct LaneScales<tiles::BytePairs<Block>> : RowScalesMins {
  uint2 w;
  __device__ void load(const char* part, int lane) { w = load8(part + lane / 4 * 8); }
  __device__ float scale(int b, int half) const {
    return static_cast<float>((b / 2 ? w.y : w.x) >> (tiles::byte_place(b % 2, half) * 8) & 255);
  }
};

// One byte for each of eight blocks and both rows.
struct SixteenBytes {
  uint4 w;
  // The word of blocks 2 * pair and the next.
  __device__ uint32_t four(int pair) const {
    return pair / 2 ? (pair % 2 ? w.w : w.z) : (pair % 2 ? w.y : w.x);
  }
  __device__ uint32_t at(int b, int half) const {
    return four(b / 2) >> (tiles::byte_place(b % 2, half) * 8) & 255;
  }
};

template <class Block>
struct LaneScales<tiles::FourBitPairs<Block>> : RowScalesMins {
  SixteenBytes bytes;
  __device__ void load(const char* part, int lane) { bytes.w = load16(part + lane / 4 * 16); }
  __device__ float scale(int b, int half) const {
    return static_cast<float>(bytes.at(b, half) & 15);
  }
};

template <class Block, int kDivisor>
struct LaneScales<tiles::ByteScales<Block, kDivisor>> : RowScalesOf<kDivisor> {
  SixteenBytes bytes;
  __device__ void load(const char* part, int lane) { bytes.w = load16(part + lane / 4 * 16); }
  __device__ float scale(int b, int half) const {
    return static_cast<float>(static_cast<int8_t>(bytes.at(b, half)));
  }
};

template <class Block, int kDivisor>
struct LaneScales<tiles::ByteScales32<Block, kDivisor>> : RowScalesOf<kDivisor> {
  uint2 w;
  __device__ void load(const char* part, int lane) { w = load8(part + lane / 4 * 8); }
  __device__ float scale(int b, int half) const {
    const uint32_t four = b / 2 ? w.y : w.x;
    return static_cast<float>(
        static_cast<int8_t>(four >> (tiles::byte_place(b % 2, half) * 8) & 255));
  }
};

__device__ inline float2 load_floats(const char* at) {
  return *reinterpret_cast<const float2*>(at);
}

// Scales of formats whose codes are floats. exact() is the scale with which decode() multiplies a
// number; row() × scale() may differ from it by rounding. scale() is a number of f16.
template <>
struct LaneScales<tiles::FloatScales> {
  float2 w;
  __device__ void load(const char* part, int lane) { w = load_floats(part + lane / 4 * 8); }
  __device__ void load_rows(const char*, int) {}
  __device__ float row(int half) const { return half ? w.y : w.x; }
  __device__ float scale(int, int) const { return 1; }
  __device__ float exact(int, int half) const { return row(half); }
};

template <>
struct LaneScales<tiles::E4m3Scales> {
  SixteenBytes bytes;
  float2 times, over;
  __device__ void load(const char* part, int lane) { bytes.w = load16(part + lane / 4 * 16); }
  __device__ void load_rows(const char* record, int lane) {
    times = load_floats(record + lane / 4 * 8);
    over = load_floats(record + tiles::E4m3Scales::kOverAt + lane / 4 * 8);
  }
  // Both are 0 where gemv_q cleared what follows a matrix's last record.
  __device__ float row(int half) const {
    const float factor = half ? times.y : times.x, divisor = half ? over.y : over.x;
    return factor == 0 && divisor == 0 ? 0 : __fdividef(factor, divisor);
  }
  __device__ __half2 halves(int b, int half) const {
    __half2 pairs[2];
    e4m3_halves(bytes.four(b / 2), pairs);
    return b % 2 ? __high2half2(pairs[half]) : __low2half2(pairs[half]);
  }
  __device__ float scale(int b, int half) const { return __low2float(halves(b, half)); }
  __device__ float exact(int b, int half) const {
    const float product = __fmul_rn(scale(b, half), half ? times.y : times.x);
    return __fdiv_rn(product, half ? over.y : over.x);
  }
};

template <class F>
struct LaneCodesOfTable {
  using Type = LaneTable<F::kTable, F::kOffset>;
};
template <class F>
requires(F::kTableInRecord) struct LaneCodesOfTable<F> {
  using Type = LaneInRecord;
};
template <class F>
using LaneCodesOf =
    std::conditional_t<F::kTable == tiles::Table::None, LaneCodes<typename F::Codes>,
                       typename LaneCodesOfTable<F>::Type>;
// Loads a lane's codes of a part of the record.
template <class F>
__device__ void load_codes(LaneCodesOf<F>& codes, const char* record, int part, int lane) {
  codes.load(record + part * F::Codes::kBytes, lane);
  if constexpr (F::kTableInRecord) codes.load_table(record + F::kTableAt);
}

// Numbers of codes that are floats are raw() times this.
template <class F>
inline constexpr float kNumberUnit = 1;
template <class F>
requires F::kFloats inline constexpr float kNumberUnit<F> = 1 / LaneCodesOf<F>::kRaw;

// A lane's share of one part of format F.
template <class F>
struct LanePart {
  LaneCodesOf<F> codes;
  LaneScales<typename F::Scales> scales;
  __device__ void load(const char* record, int part, int lane) {
    load_codes<F>(codes, record, part, lane);
    scales.load(record + F::kScalesAt + part * F::Scales::kPartBytes, lane);
    scales.load_rows(record + F::kRowsAt, lane);
  }
};

}  // namespace skald::cuda
