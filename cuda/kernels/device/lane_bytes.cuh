// The codes of a lane's part as bytes, as gemv_q_sm90 multiplies them for one row: most by masks
// alone, some by nothing at all. A lane has four bytes of a row twice for each unit of 32 columns,
// `first` and `second`.
//
// Where a code has a byte of its own, `first` is of the unit's first 16 columns, `second` of its
// last. Where a byte has two, low + kRatio * high, `first` is that byte and `second` the low code
// again. Then of numbers N
//   first * N_high + second * (kRatio * N_low - N_high) = kRatio * (high * N_high + low * N_low),
// and what stands beside `first` and `second` is made of the activations just once (digits.cuh).
// High bits of codes are bytes of the same kind, a plane of their own.
#pragma once

#include "cuda/kernels/device/tile_lane.cuh"

namespace skald::cuda {

// bytes(): of a plane. shift(plane, unit): bits by which its codes are too far up. kHighBit: what a
// one in plane 1 counts.
template <class C>
struct LaneBytes;

// A plane of codes of kBits, of which `kApart` bits further there is another, in one of a word's
// units.
template <int kBits, int kApart>
__device__ inline void two_of_byte(uint32_t word, int shift, uint32_t& first, uint32_t& second) {
  constexpr uint32_t kLow = ((1u << kBits) - 1) * 0x01010101u;
  first = kBits + kApart == 8 ? word : word & ((kLow | kLow << kApart) << shift);
  second = word & (kLow << shift);
}

template <int kFirstBit>
struct LaneBytes<tiles::Codes1<tiles::FourBits<kFirstBit>>> {
  static constexpr int kRatio = 16, kPlanes = 1, kHighBit = 0;
  LaneCodes<tiles::FourBits<kFirstBit>> low;
  __device__ void load(const char* at, int lane) { low.load(at, lane); }
  SKALD_HD static constexpr int shift(int, int) { return 0; }
  __device__ void bytes(int, int unit, int half, uint32_t& first, uint32_t& second) const {
    two_of_byte<4, 4>(low.word(unit, half), 0, first, second);
  }
};

template <int kFirstBit>
struct LaneBytes<tiles::Codes1<tiles::TwoBits<kFirstBit>>> {
  static constexpr int kRatio = 4, kPlanes = 1, kHighBit = 0;
  LaneCodes<tiles::TwoBits<kFirstBit>> low;
  __device__ void load(const char* at, int lane) { low.load(at, lane); }
  SKALD_HD static constexpr int shift(int, int unit) { return tiles::pairs_at<2>(unit % 2 * 2, 2); }
  __device__ void bytes(int, int unit, int half, uint32_t& first, uint32_t& second) const {
    two_of_byte<2, 2>(low.word(unit, half), shift(0, unit), first, second);
  }
};

template <class Low, class High, int kBits>
struct LaneBytes<tiles::Codes2<Low, High, kBits>> {
  using LowBytes = LaneBytes<tiles::Codes1<Low>>;
  static constexpr int kRatio = 1 << kBits, kPlanes = 2, kHighBit = 1 << kBits;
  static constexpr int kHighBits = High::kBytes * 8 / (tiles::kRows * tiles::kPartCols);
  static_assert(LowBytes::kRatio == kRatio && High::kApart == kBits);
  LowBytes low;
  LaneCodes<High> high;
  __device__ void load(const char* at, int lane) {
    low.load(at, lane);
    high.load(at + Low::kBytes, lane);
  }
  SKALD_HD static constexpr int shift(int plane, int unit) {
    constexpr int kUnits = 4 / kHighBits;  // of a word
    return plane ? tiles::pairs_at<kHighBits>(unit % kUnits * 2, kBits) : LowBytes::shift(0, unit);
  }
  __device__ void bytes(int plane, int unit, int half, uint32_t& first, uint32_t& second) const {
    if (plane == 0) return low.bytes(0, unit, half, first, second);
    two_of_byte<kHighBits, kBits>(high.word(unit, half), shift(1, unit), first, second);
  }
};

template <>
struct LaneBytes<tiles::EightBits> {
  static constexpr int kRatio = 1, kPlanes = 1, kHighBit = 0;
  LaneCodes<tiles::EightBits> low;
  __device__ void load(const char* at, int lane) { low.load(at, lane); }
  SKALD_HD static constexpr int shift(int, int) { return 0; }
  __device__ void bytes(int, int unit, int half, uint32_t& first, uint32_t& second) const {
    const uint4& four = low.w[unit];
    first = half ? four.y : four.x;
    second = half ? four.w : four.z;
  }
};

// The numbers of a table, plus kOffset.
template <tiles::Table kTable, int kOffset>
struct TableBytes {
  static constexpr int kRatio = 1, kPlanes = 1, kHighBit = 0;
  LaneTable<kTable, kOffset> table;
  __device__ void load(const char* at, int lane) { table.load(at, lane); }
  SKALD_HD static constexpr int shift(int, int) { return 0; }
  __device__ void bytes(int, int unit, int half, uint32_t& first, uint32_t& second) const {
    const uint32_t word = table.codes.word(unit, half);
    first = table.four(word);
    second = table.four(word >> 16);
  }
};

template <class F>
using LaneBytesOf =
    std::conditional_t<F::kTable == tiles::Table::None, LaneBytes<typename F::Codes>,
                       TableBytes<F::kTable, F::kOffset>>;

}  // namespace skald::cuda
