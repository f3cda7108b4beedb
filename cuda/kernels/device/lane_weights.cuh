// A lane's weights of a part of a tile as f16 numbers, in the order of a product's left operand:
// code times scale, less the minimum, each step rounded to f16 once. tile_lane.cuh has the codes.
#pragma once

#include "cuda/kernels/device/tile_lane.cuh"

namespace skald::cuda {

__device__ inline __half2 as_half2(uint32_t bits) { return *reinterpret_cast<__half2*>(&bits); }
__device__ inline uint32_t as_bits(__half2 both) { return *reinterpret_cast<uint32_t*>(&both); }

// Whole numbers below 1024 become f16 by their bits in one of 1024, `kThousands` twice.
inline constexpr uint32_t kThousands = 0x64006400;
__device__ inline __half2 less(uint32_t thousands, float number) {
  return __hsub2(as_half2(thousands), __float2half2_rn(1024 + number));
}
// Bytes `first` of a word and the next.
__device__ inline __half2 two_bytes(uint32_t word, int first, float number) {
  return less(__byte_perm(word, 0x64, 0x4140 + first * 0x0101), number);
}
// (word & mask) | with: the compiler makes two instructions of it where both are known to it.
__device__ inline uint32_t masked(uint32_t word, uint32_t mask, uint32_t with) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(with));
  return result;
}

// Number 0 or 1 of two, twice; costs nothing before a product.
__device__ inline __half2 twice(__half2 two, int i) {
  return i ? __high2half2(two) : __low2half2(two);
}
__device__ inline __half2 twice(uint32_t two, int i) { return twice(as_half2(two), i); }

// half_pairs(): LaneCodes::pairs() with kThousands in each number.
template <int kFirstBit>
__device__ void half_pairs(const LaneCodes<tiles::Codes1<tiles::FourBits<kFirstBit>>>& codes,
                           int unit, int half, int m, uint32_t (&pairs)[2]) {
  const uint32_t word = codes.low.word(unit, half) >> (8 * m);
  pairs[0] = masked(word, 0x000f000f, kThousands);
  pairs[1] = masked(word, 0x00f000f0, kThousands);
}
template <int kFirstBit>
__device__ void half_pairs(const LaneCodes<tiles::Codes1<tiles::TwoBits<kFirstBit>>>& codes,
                           int unit, int half, int m, uint32_t (&pairs)[2]) {
  const uint32_t word = codes.low.word(unit, half) >> (unit % 2 * 8 + 4 * m);
  pairs[0] = masked(word, 0x00030003, kThousands);
  pairs[1] = masked(word, 0x000c000c, kThousands);
}

template <class Low, class High, int kBits>
__device__ void half_pairs(const LaneCodes<tiles::Codes2<Low, High, kBits>>& codes, int unit,
                           int half, int m, uint32_t (&pairs)[2]) {
  constexpr bool kFour = Low::kOddScale == 16;
  constexpr uint32_t kUpper = LaneCodes<High>::kMask;
  const uint32_t word = codes.low.word(unit, half) >> (kFour ? 8 * m : unit % 2 * 8 + 4 * m);
  const uint32_t upper = codes.high.moved(unit, half, m);
  pairs[0] =
      masked(word, kFour ? 0x000f000f : 0x00030003, masked(upper, kUpper << kBits, kThousands));
  pairs[1] = masked(word, kFour ? 0x00f000f0 : 0x000c000c,
                    masked(upper, kUpper << (2 * kBits), kThousands));
}

// Bytes.
__device__ inline void half_bytes(uint32_t bytes, uint32_t (&pairs)[2]) {
  pairs[0] = __byte_perm(bytes, 0x64, 0x4140);
  pairs[1] = __byte_perm(bytes, 0x64, 0x4342);
}
__device__ inline void half_pairs(const LaneCodes<tiles::EightBits>& codes, int unit, int half,
                                  int m, uint32_t (&pairs)[2]) {
  const uint4& four = codes.w[unit];
  half_bytes(half ? (m ? four.w : four.z) : (m ? four.y : four.x), pairs);
}
template <tiles::Table kTable, int kOffset>
__device__ void half_pairs(const LaneTable<kTable, kOffset>& codes, int unit, int half, int m,
                           uint32_t (&pairs)[2]) {
  codes.pairs(unit, half, m, pairs[0], pairs[1]);
  pairs[0] |= kThousands, pairs[1] |= kThousands;
}

// HalfScales<S>: scale() of LaneScales with row() in it, and minus_min(), each twice.
template <class S>
struct HalfScales;

template <class Block>
struct HalfScales<tiles::F16Scales<Block>> {
  uint4 w;
  __device__ void load(const char* part, const char*, int lane) {
    w = load16(part + lane / 4 * 16);
  }
  __device__ __half2 scale(int b, int half) const {
    const uint32_t both = b / 2 ? (b % 2 ? w.w : w.z) : (b % 2 ? w.y : w.x);
    return twice(both, half);
  }
};

template <class Block>
struct HalfScales<tiles::F16Pairs<Block>> : HalfScales<tiles::F16Scales<Block>> {
  uint4 mins;
  __device__ void load(const char* part, const char* rows, int lane) {
    HalfScales<tiles::F16Scales<Block>>::load(part, rows, lane);
    mins = load16(part + tiles::F16Pairs<Block>::kMinsAt + lane / 4 * 16);
  }
  __device__ __half2 minus_min(int b, int half) const {
    const uint32_t two = b / 2 ? (half ? mins.w : mins.z) : (half ? mins.y : mins.x);
    return twice(two, b % 2);
  }
};

struct HalfRowScales {
  uint32_t rows;
  __device__ void load_rows(const char* at, int lane) { rows = load4(at + lane / 4 * 4); }
  __device__ __half2 row(int half) const { return twice(rows, half); }
};

struct HalfRowScalesMins {
  uint2 rows;
  __device__ void load_rows(const char* at, int lane) {
    rows = load8(at + lane / 4 * 8);
    rows.x ^= 0x80000000, rows.y ^= 0x80000000;
  }
  __device__ __half2 row(int half) const { return twice(half ? rows.y : rows.x, 0); }
  __device__ __half2 minus_row_min(int half) const { return twice(half ? rows.y : rows.x, 1); }
};

template <class Block>
struct HalfScales<tiles::BytePairs<Block>> : HalfRowScalesMins {
  uint2 w, mins;
  __device__ void load(const char* part, const char* rows, int lane) {
    load_rows(rows, lane);
    w = load8(part + lane / 4 * 8);
    mins = load8(part + tiles::BytePairs<Block>::kMinsAt + lane / 4 * 8);
  }
  __device__ __half2 scale(int b, int half) const {
    return twice(__hmul2(two_bytes(half ? w.y : w.x, b / 2 * 2, 0), row(half)), b % 2);
  }
  __device__ __half2 minus_min(int b, int half) const {
    const __half2 two = two_bytes(b / 2 ? mins.y : mins.x, half * 2, 0);
    return twice(__hmul2(two, minus_row_min(half)), b % 2);
  }
};

// Byte b of 16, eight of each row.
__device__ inline uint32_t word_of(const uint4& w, int b, int half) {
  return half ? (b / 4 ? w.w : w.z) : (b / 4 ? w.y : w.x);
}

template <class Block>
struct HalfScales<tiles::FourBitPairs<Block>> : HalfRowScalesMins {
  uint4 w;
  __device__ void load(const char* part, const char* rows, int lane) {
    load_rows(rows, lane);
    w = load16(part + lane / 4 * 16);
  }
  __device__ __half2 scale(int b, int half) const {
    const uint32_t four = word_of(w, b, half) & 0x0f0f0f0f;
    return twice(__hmul2(two_bytes(four, b % 4 / 2 * 2, 0), row(half)), b % 2);
  }
  __device__ __half2 minus_min(int b, int half) const {
    const uint32_t four = word_of(w, b, half) >> 4 & 0x0f0f0f0f;
    return twice(__hmul2(two_bytes(four, b % 4 / 2 * 2, 0), minus_row_min(half)), b % 2);
  }
};

template <class Block>
struct HalfScales<tiles::ByteScales<Block>> : HalfRowScales {
  uint4 w;  // with 128 added, so that bytes are not signed
  __device__ void load(const char* part, const char* rows, int lane) {
    load_rows(rows, lane);
    w = load16(part + lane / 4 * 16);
    w.x ^= 0x80808080, w.y ^= 0x80808080, w.z ^= 0x80808080, w.w ^= 0x80808080;
  }
  __device__ __half2 scale(int b, int half) const {
    const __half2 two = two_bytes(word_of(w, b, half), b % 4 / 2 * 2, 128);
    return twice(__hmul2(two, row(half)), b % 2);
  }
};

template <class Block>
struct HalfScales<tiles::SixBitScales16<Block>> : HalfRowScales {
  SixBitFields fields;
  __device__ void load(const char* part, const char* rows, int lane) {
    load_rows(rows, lane);
    fields.load(part + lane / 4 * 12);
  }
  __device__ __half2 scale(int b, int half) const {
    const int first = tiles::six_bit_field(b / 2 * 2, half);
    const uint32_t two = static_cast<uint32_t>(fields.at(first) | fields.at(first + 1) << 16);
    return twice(__hmul2(less(two | kThousands, 32), row(half)), b % 2);
  }
};

template <class Block>
struct HalfScales<tiles::SixBitScales32<Block>> : HalfRowScales {
  uint2 w;
  __device__ void load(const char* part, const char* rows, int lane) {
    load_rows(rows, lane);
    w = load8(part + lane / 4 * 8);
  }
  __device__ __half2 scale(int b, int half) const {
    return twice(__hmul2(two_bytes(half ? w.y : w.x, b / 2 * 2, 32), row(half)), b % 2);
  }
};

// All of one part of format F.
template <class F>
struct LaneWeights {
  LaneCodesOf<F> codes;
  HalfScales<typename F::Scales> scales;

  __device__ void load(const char* record, int part, int lane) {
    codes.load(record + part * F::Codes::kBytes, lane);
    scales.load(record + F::kScalesAt + part * F::Scales::kPartBytes, record + F::kRowsAt, lane);
  }

  // Of 16 columns (m of unit): rows lane / 4, + 8, and the same again; of columns 4 * (lane % 4) on
  // the first two, then the other two.
  __device__ void fragment(int unit, int m, uint32_t (&a)[4]) const {
    constexpr float kOdd = F::Codes::kOddScale;
    const int b = F::Scales::kCols == 16 ? unit * 2 + m : unit;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t pairs[2];
      half_pairs(codes, unit, half, m, pairs);
      const __half2 scale = scales.scale(b, half);
      const __half2 numbers[2] = {less(pairs[0], F::kOffset),
                                  kOdd == 1
                                      ? less(pairs[1], F::kOffset)
                                      : __hfma2(as_half2(pairs[1]), __float2half2_rn(1 / kOdd),
                                                __float2half2_rn(-1024 / kOdd - F::kOffset))};
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        if constexpr (F::kHasMin) {
          a[half + 2 * p] = as_bits(__hfma2(numbers[p], scale, scales.minus_min(b, half)));
        } else {
          a[half + 2 * p] = as_bits(__hmul2(numbers[p], scale));
        }
      }
    }
  }
};

}  // namespace skald::cuda
