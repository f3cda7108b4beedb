// The codes of a lane's part as bytes, for gemv_q_sm90. Most formats need masks alone, some nothing
// at all. (by16_product.cuh is for codes that are grouped by 16 columns.) For each unit of 32
// columns a lane has two words of a row, of four bytes each: `first` and `second`.
//
// If a code has a byte of its own, `first` has the unit's first 16 columns and `second` its last
// 16. If a byte has two codes, low + kRatio * high, then `first` is that byte and `second` is the
// low code again. With the activations as integers N
//   first * N_high + second * (kRatio * N_low - N_high) = kRatio * (high * N_high + low * N_low).
// The factors of `first` and `second` are computed from the activations just once (digits.cuh). The
// upper bits of codes are bytes of the same kind, in a plane of their own.
#pragma once

#include "cuda/kernels/tiles/tile_lane.cuh"

namespace skald::cuda {

// LaneBytes<C>: offset(plane, lane) is the offset of a lane's codes of a plane in a part. load()
// takes the places of both planes, or of the only one. kLanesDiffer: the distance of the two planes
// differs between lanes. bytes() gives `first` and `second` of a plane. shift(plane, unit): by how
// many bits the plane's codes lie too high. kHighBit: the value of a one in plane 1.
template <class C>
struct LaneBytes;

// For planes in which each lane has 16 adjacent bytes.
struct SixteenOfLane {
  static constexpr bool kLanesDiffer = false;
  __device__ static int offset(int, int lane) { return lane * 16; }
};

// The bytes of one unit in a word with codes of kBits. A byte's high code lies `kApart` bits above
// its low code.
template <int kBits, int kApart>
__device__ inline void two_of_byte(uint32_t word, int shift, uint32_t& first, uint32_t& second) {
  constexpr uint32_t kLow = ((1u << kBits) - 1) * 0x01010101u;
  first = kBits + kApart == 8 ? word : word & ((kLow | kLow << kApart) << shift);
  second = word & (kLow << shift);
}

template <int kFirstBit>
struct LaneBytes<tiles::Codes1<tiles::FourBits<kFirstBit>>> : SixteenOfLane {
  static constexpr int kRatio = 16, kPlanes = 1, kHighBit = 0;
  uint2 w[tiles::kUnits];  // words of both rows; the product reads `first` in place
  __device__ void load(const char* at, const char* = nullptr) {
#pragma unroll
    for (int unit = 0; unit < tiles::kUnits; ++unit) {
      w[unit] = load_two(at + unit / 2 * 512 + unit % 2 * 8);
    }
  }
  SKALD_HD static constexpr int shift(int, int) { return 0; }
  __device__ void bytes(int, int unit, int half, uint32_t& first, uint32_t& second) const {
    two_of_byte<4, 4>(half ? w[unit].y : w[unit].x, 0, first, second);
  }
};

template <class Low, class High, int kBits>
struct LaneBytes<tiles::Codes2<Low, High, kBits>> {
  using LowBytes = LaneBytes<tiles::Codes1<Low>>;
  static constexpr int kRatio = 1 << kBits, kPlanes = 2, kHighBit = 1 << kBits;
  static constexpr int kHighBits = High::kBytes * 8 / (tiles::kRows * tiles::kPartCols);
  static constexpr bool kLanesDiffer = kHighBits != 2;
  static_assert(LowBytes::kRatio == kRatio && High::kApart == kBits);
  LowBytes low;
  LaneCodes<High> high;
  __device__ static int offset(int plane, int lane) {
    return plane ? Low::kBytes + lane * (High::kBytes / 32) : LowBytes::offset(0, lane);
  }
  __device__ void load(const char* at, const char* high_at) {
    low.load(at);
    high.load(high_at, 0);
  }
  SKALD_HD static constexpr int shift(int plane, int unit) {
    constexpr int kUnits = 4 / kHighBits;  // in a word
    return plane ? tiles::pairs_at<kHighBits>(unit % kUnits * 2, kBits) : LowBytes::shift(0, unit);
  }
  __device__ void bytes(int plane, int unit, int half, uint32_t& first, uint32_t& second) const {
    if (plane == 0) return low.bytes(0, unit, half, first, second);
    two_of_byte<kHighBits, kBits>(high.word(unit, half), shift(1, unit), first, second);
  }
};

template <>
struct LaneBytes<tiles::EightBits> : SixteenOfLane {
  static constexpr int kRatio = 1, kPlanes = 1, kHighBit = 0;
  LaneCodes<tiles::EightBits> low;
  __device__ void load(const char* at, const char* = nullptr) { low.load(at, 0); }
  SKALD_HD static constexpr int shift(int, int) { return 0; }
  __device__ void bytes(int, int unit, int half, uint32_t& first, uint32_t& second) const {
    const uint4& four = low.w[unit];
    first = half ? four.y : four.x;
    second = half ? four.w : four.z;
  }
};

// The numbers of a table, as signed bytes. One byte permutation finds one of eight numbers, so each
// code is looked up twice: among the first eight (plane 0) and among the last eight (plane 1). The
// products of both planes are added. The wrong lookup gives the sign of another entry, 0 or -1; the
// entries of the right lookup are corrected for that.
template <tiles::Table kTable>
struct TableBytes : SixteenOfLane {
  static constexpr int kRatio = 1, kPlanes = 2, kHighBit = 1;
  LaneCodes<tiles::FourBits<>> codes;
  uint32_t first_low = entries(0), first_high = entries(8);  // may be held in registers
  __device__ void load(const char* at, const char* = nullptr) { codes.load(at, 0); }
  SKALD_HD static constexpr int shift(int, int) { return 0; }
  SKALD_HD static constexpr int entry(int code) {
    const int own = tiles::table_number<kTable>(code),
              other = tiles::table_number<kTable>(code ^ 8);
    for (int sign = -1; sign < 1; ++sign) {
      for (int other_sign = -1; other_sign < 1; ++other_sign) {
        const bool agree = (own - other_sign < 0) == (sign < 0);
        if (agree && (other - sign < 0) == (other_sign < 0)) return own - other_sign;
      }
    }
    return 0;
  }
  SKALD_HD static constexpr uint32_t entries(int first) {
    uint32_t bytes = 0;
    for (int i = 0; i < 4; ++i) bytes |= (entry(first + i) & 255u) << (8 * i);
    return bytes;
  }
  SKALD_HD static constexpr bool right() {
    for (int code = 0; code < 16; ++code) {
      const int found = entry(code) - (entry(code ^ 8) < 0);
      if (found != tiles::table_number<kTable>(code)) return false;
    }
    return true;
  }
  __device__ void bytes(int plane, int unit, int half, uint32_t& first, uint32_t& second) const {
    static_assert(right());
    constexpr uint32_t k4 = entries(4), k12 = entries(12);
    const uint32_t at = codes.word(unit, half) ^ (plane ? 0x88888888 : 0);
    first = choose_bytes(plane ? first_high : first_low, plane ? k12 : k4, at);
    second = choose_bytes(plane ? first_high : first_low, plane ? k12 : k4, at >> 16);
  }
};

// The numbers of a record's table, as signed bytes. load() is followed by load_table().
struct InRecordBytes {
  static constexpr bool kLanesDiffer = true;
  static constexpr int kRatio = 1, kPlanes = 1, kHighBit = 0;
  LaneInRecord codes;
  __device__ static int offset(int plane, int lane) {
    return plane ? tiles::TableCodes3::kSecondAt + lane * 8 : lane * 16;
  }
  __device__ void load(const char* at, const char* second) { codes.load(at, second); }
  __device__ void load_table(const char* at) { codes.load_table(at + tiles::kInRecordBytes / 2); }
  SKALD_HD static constexpr int shift(int, int) { return 0; }
  __device__ void bytes(int, int unit, int half, uint32_t& first, uint32_t& second) const {
    const uint32_t at = codes.w[unit][half];
    first = choose_bytes(codes.table.x, codes.table.y, at);
    second = choose_bytes(codes.table.x, codes.table.y, at >> 16);
  }
};

template <class F>
struct LaneBytesOfTable {
  using Type = TableBytes<F::kTable>;
};
template <class F>
requires(F::kTableInRecord) struct LaneBytesOfTable<F> {
  using Type = InRecordBytes;
};
template <class F>
using LaneBytesOf =
    std::conditional_t<F::kTable == tiles::Table::None, LaneBytes<typename F::Codes>,
                       typename LaneBytesOfTable<F>::Type>;

// Powers of two. low() and high() are factors for the sums of a unit's two planes; then the sums
// can be added. both() is the factor that brings the result to the unit of all columns, 2^-kUp.
template <class F>
struct Planes {
  using Bytes = LaneBytesOf<F>;
  SKALD_HD static constexpr int low(int unit) { return 1 << (up(unit) - Bytes::shift(0, unit)); }
  SKALD_HD static constexpr int high(int unit) {
    return Bytes::kHighBit << up(unit) >> Bytes::shift(1, unit);
  }
  SKALD_HD static constexpr int both(int unit) { return 1 << (kUp - up(unit)); }

 private:
  SKALD_HD static constexpr int up(int unit) {
    int bits = Bytes::shift(0, unit);
    if (Bytes::kPlanes == 2) {
      while (Bytes::kHighBit << bits < 1 << Bytes::shift(1, unit)) ++bits;
    }
    return bits;
  }
  SKALD_HD static constexpr int most() {
    int bits = 0;
    for (int unit = 0; unit < tiles::kUnits; ++unit) bits = up(unit) > bits ? up(unit) : bits;
    return bits;
  }

 public:
  static constexpr int kUp = most();
};

}  // namespace skald::cuda
