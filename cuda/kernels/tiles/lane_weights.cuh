// A lane's weights of a part as f16 numbers, in the order of the left operand of wgmma: code times
// scale, minus the minimum, each step rounded to f16 once. Used by gemm_q_sm90 and
// experts_many_sm90. tile_lane.cuh has the codes.
#pragma once

#include "cuda/kernels/tiles/odd_columns.h"
#include "cuda/kernels/tiles/tile_lane.cuh"

namespace skald::cuda {

__device__ inline __half2 as_half2(uint32_t bits) { return *reinterpret_cast<__half2*>(&bits); }
__device__ inline uint32_t as_bits(__half2 both) { return *reinterpret_cast<uint32_t*>(&both); }

// The f16 number 1024 with an integer below 1024 added to its bits is the number 1024 + integer.
// kThousands is 1024 in both halves. less() subtracts 1024 + number.
inline constexpr uint32_t kThousands = 0x64006400;
__device__ inline __half2 less(uint32_t thousands, float number) {
  return __hsub2(as_half2(thousands), __float2half2_rn(1024 + number));
}
// Bytes `first` and first + 1 of a word, minus `number`, in f16.
__device__ inline __half2 two_bytes(uint32_t word, int first, float number) {
  return less(__byte_perm(word, 0x64, 0x4140 + first * 0x0101), number);
}
// Element i of a pair, in both halves. The multiplication that uses it selects the half, so it
// takes no instruction.
__device__ inline __half2 twice(__half2 two, int i) {
  return i ? __high2half2(two) : __low2half2(two);
}
__device__ inline __half2 twice(uint32_t two, int i) { return twice(as_half2(two), i); }

// LaneCodes::pairs(), with each code in the low bits of the f16 number 1024.
template <class Plane>
__device__ void half_pairs(const LaneCodes<tiles::Codes1<Plane>>& codes, int unit, int half, int m,
                           uint32_t (&pairs)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    pairs[i] = masked(codes.low.shifted(unit, half, 2 * m + i), codes.low.pair_mask(i), kThousands);
  }
}
template <class Low, class High, int kBits>
__device__ void half_pairs(const LaneCodes<tiles::Codes2<Low, High, kBits>>& codes, int unit,
                           int half, int m, uint32_t (&pairs)[2]) {
  constexpr uint32_t kUpper = LaneCodes<High>::kMask;
  const uint32_t word = codes.low.shifted(unit, half, 2 * m);
  const uint32_t upper = codes.high.moved(unit, half, m);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    pairs[i] = masked(word, codes.low.pair_mask(i),
                      masked(upper, kUpper << ((i + 1) * kBits), kThousands));
  }
}

// Like half_pairs(), for codes of one byte.
__device__ inline void half_bytes(uint32_t bytes, uint32_t (&pairs)[2]) {
  pairs[0] = __byte_perm(bytes, 0x64, 0x4140);
  pairs[1] = __byte_perm(bytes, 0x64, 0x4342);
}
__device__ inline void half_pairs(const LaneCodes<tiles::EightBits>& codes, int unit, int half,
                                  int m, uint32_t (&pairs)[2]) {
  const uint4& four = codes.w[unit];
  half_bytes(m ? (half ? four.w : four.z) : (half ? four.y : four.x), pairs);
}
template <tiles::Table kTable, int kOffset>
__device__ void half_pairs(const LaneTable<kTable, kOffset>& codes, int unit, int half, int m,
                           uint32_t (&pairs)[2]) {
  codes.pairs(unit, half, m, pairs[0], pairs[1]);
  pairs[0] |= kThousands, pairs[1] |= kThousands;
}
__device__ inline void half_pairs(const LaneInRecord& codes, int unit, int half, int m,
                                  uint32_t (&pairs)[2]) {
  codes.pairs(unit, half, m, pairs[0], pairs[1]);
  pairs[0] |= kThousands, pairs[1] |= kThousands;
}

// The factor of stored sums of activations. With it, sums of 32 activations below 2^15 cannot
// overflow f16.
inline constexpr float kHalfSumUnit = 1.0f / 64;

// HalfScales<S>: LaneScales in f16. scale() includes row(), minus_min() is the negative minimum,
// and each number is in both halves.
template <class S>
struct HalfScales;

template <class Block>
struct HalfScales<tiles::F16Scales<Block>> {
  uint4 w;
  __device__ void load(const char* part, const char*, int lane) {
    w = load16(part + lane / 4 * 16);
  }
  __device__ __half2 scale(int b, int half) const { return twice(two(b), half); }
  // The eight scales in four pairs: scale(b, half) is element number(b, half) of two(at(b, half)).
  __device__ __half2 two(int i) const {
    return as_half2(i / 2 ? (i % 2 ? w.w : w.z) : (i % 2 ? w.y : w.x));
  }
  __device__ static constexpr int at(int b, int) { return b; }
  __device__ static constexpr int number(int, int half) { return half; }
};

template <class Block>
struct HalfScales<tiles::F16Pairs<Block>> : HalfScales<tiles::F16Scales<Block>> {};

template <>
struct HalfScales<tiles::ExponentScales> {
  LaneScales<tiles::ExponentScales> scales;
  __device__ void load(const char* part, const char*, int lane) { scales.load(part, lane); }
  // Scales below 2^-24 become zero, scales from 2^16 on infinite.
  __device__ __half2 scale(int b, int half) const {
    return __float2half2_rn(scales.scale(b, half));
  }
};

// For formats whose codes are floats: the scales of raw numbers, divided by the row's power of two,
// which row_unit() gives. No scale() exceeds 2^kMore.
template <class F, int kMore>
struct HalfFloatScales {
  using S = typename F::Scales;
  LaneScales<S> scales;
  __half2 rows[2];
  __device__ void load(const char* part, const char* record, int lane) {
    scales.load(part, lane);
    scales.load_rows(record, lane);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float down = __uint_as_float((254 - exponent(record, lane, half)) << 23);
      rows[half] = __float2half2_rn(scales.row(half) * down * kNumberUnit<F>);
    }
  }
  __device__ __half2 scale(int b, int half) const {
    if constexpr (kMore == 0) {
      return rows[half];
    } else {
      return __hmul2(scales.halves(b, half), rows[half]);
    }
  }
  __device__ static float row_unit(const char* record, int lane, int half) {
    return __uint_as_float(exponent(record, lane, half) << 23);
  }

 private:
  __device__ static uint32_t exponent(const char* record, int lane, int half) {
    const char* at = record + S::kExponentsAt + lane / 4 * 2 + half;
    return *reinterpret_cast<const uint8_t*>(at) + kMore;
  }
};
template <>
struct HalfScales<tiles::FloatScales> : HalfFloatScales<tiles::FP8, 0> {};
template <>
struct HalfScales<tiles::E4m3Scales> : HalfFloatScales<tiles::NVFP4, 9> {};

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
  uint2 w;
  __device__ void load(const char* part, const char* rows, int lane) {
    load_rows(rows, lane);
    w = load8(part + lane / 4 * 8);
  }
  __device__ __half2 two(int i) const {
    return __hmul2(two_bytes(i / 2 ? w.y : w.x, i % 2 * 2, 0), row(i % 2));
  }
  __device__ static constexpr int at(int b, int half) { return b / 2 * 2 + half; }
  __device__ static constexpr int number(int b, int) { return b % 2; }
};

// The numbers that are subtracted from the weights of 256 columns, as the left operand of a
// product: rows lane / 4 and lane / 4 + 8, blocks 2 * (lane % 4) and the next, in units of
// kHalfSumUnit. `part` is the part that has the lane's blocks: part (lane % 4) / 2 of the two.
template <class F, class S>
struct HalfMins;

template <class F, class Block>
struct HalfMins<F, tiles::F16Scales<Block>> {
  __device__ static void load(uint32_t (&mins)[2], const char* part, const char*, int lane) {
    const uint4 scales = load16(part + lane / 4 * 16);
    const uint32_t a = lane % 2 ? scales.z : scales.x, b = lane % 2 ? scales.w : scales.y;
    mins[0] = __byte_perm(a, b, 0x5410);
    mins[1] = __byte_perm(a, b, 0x7632);
    const __half2 factor = __float2half2_rn(-F::kOffset / kHalfSumUnit);
#pragma unroll
    for (uint32_t& two : mins) two = as_bits(__hmul2(as_half2(two), factor));
  }
};

template <class F, class Block>
struct HalfMins<F, tiles::F16Pairs<Block>> {
  __device__ static void load(uint32_t (&mins)[2], const char* part, const char*, int lane) {
    const uint2 two = load8(part + tiles::F16Pairs<Block>::kMinsAt + lane / 4 * 16 + lane % 2 * 8);
    const __half2 factor = __float2half2_rn(1 / kHalfSumUnit);
    mins[0] = as_bits(__hmul2(as_half2(two.x), factor));
    mins[1] = as_bits(__hmul2(as_half2(two.y), factor));
  }
};

template <class F, class Block>
struct HalfMins<F, tiles::BytePairs<Block>> {
  __device__ static void load(uint32_t (&mins)[2], const char* part, const char* rows, int lane) {
    HalfRowScalesMins scales;
    scales.load_rows(rows, lane);
    const uint32_t four =
        load4(part + tiles::BytePairs<Block>::kMinsAt + lane / 4 * 8 + lane % 2 * 4);
    const __half2 factor = __float2half2_rn(1 / kHalfSumUnit);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const __half2 unit = __hmul2(scales.minus_row_min(half), factor);
      mins[half] = as_bits(__hmul2(two_bytes(four, half * 2, 0), unit));
    }
  }
};

// The word that holds the bytes of block b.
__device__ inline uint32_t word_of(const uint4& w, int b) {
  return b / 4 ? (b / 2 % 2 ? w.w : w.z) : (b / 2 % 2 ? w.y : w.x);
}

template <class Block>
struct HalfScales<tiles::FourBitPairs<Block>> : HalfRowScalesMins {
  uint4 w;
  __device__ void load(const char* part, const char* rows, int lane) {
    load_rows(rows, lane);
    w = load16(part + lane / 4 * 16);
  }
  __device__ __half2 scale(int b, int half) const {
    const uint32_t four = word_of(w, b) & 0x0f0f0f0f;
    return twice(__hmul2(two_bytes(four, half * 2, 0), row(half)), b % 2);
  }
  __device__ __half2 minus_min(int b, int half) const {
    const uint32_t four = word_of(w, b) >> 4 & 0x0f0f0f0f;
    return twice(__hmul2(two_bytes(four, half * 2, 0), minus_row_min(half)), b % 2);
  }
};

// Whole numbers over kDivisor, a power of two, are f16 numbers.
template <int kDivisor>
__device__ __half2 over(__half2 whole) {
  return kDivisor == 1 ? whole : __hmul2(whole, __float2half2_rn(1.0f / kDivisor));
}

template <class Block, int kDivisor>
struct HalfScales<tiles::ByteScales<Block, kDivisor>> : HalfRowScales {
  uint4 w;  // with 128 added to each byte, so that bytes are unsigned
  __device__ void load(const char* part, const char* rows, int lane) {
    load_rows(rows, lane);
    w = load16(part + lane / 4 * 16);
    w.x ^= 0x80808080, w.y ^= 0x80808080, w.z ^= 0x80808080, w.w ^= 0x80808080;
  }
  __device__ __half2 scale(int b, int half) const {
    const __half2 two = over<kDivisor>(two_bytes(word_of(w, b), half * 2, 128));
    return twice(__hmul2(two, row(half)), b % 2);
  }
};

template <class Block, int kDivisor>
struct HalfScales<tiles::ByteScales32<Block, kDivisor>> : HalfRowScales {
  uint2 w;  // with 128 added to each byte, so that bytes are unsigned
  __device__ void load(const char* part, const char* rows, int lane) {
    load_rows(rows, lane);
    w = load8(part + lane / 4 * 8);
    w.x ^= 0x80808080, w.y ^= 0x80808080;
  }
  __device__ __half2 scale(int b, int half) const {
    const __half2 two = over<kDivisor>(two_bytes(b / 2 ? w.y : w.x, half * 2, 128));
    return twice(__hmul2(two, row(half)), b % 2);
  }
};

// A lane's weights of one part of format F.
template <class F>
struct LaneWeights {
  static constexpr int kOdd = F::Codes::kOddScale;
  LaneCodesOf<F> codes;
  HalfScales<typename F::Scales> scales;
  // The scales, and the scales times -1024.
  __half2 factors[kSumsApart<F> ? 4 : 1], thousands[kSumsApart<F> ? 4 : 1];

  __device__ void load(const char* record, int part, int lane) {
    load_codes<F>(codes, record, part, lane);
    scales.load(record + F::kScalesAt + part * F::Scales::kPartBytes, record + F::kRowsAt, lane);
    if constexpr (kSumsApart<F>) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        factors[i] = scales.two(i);
        thousands[i] = __hmul2(factors[i], __float2half2_rn(-1024));
      }
    }
  }

  // The left operand for 16 columns (half m of a unit). a[0] and a[1]: rows lane / 4 and lane / 4 +
  // 8, columns 4 * (lane % 4) and the next. a[2] and a[3]: the same rows, the two columns after
  // these, times kOddColumns.
  __device__ void fragment(int unit, int m, uint32_t (&a)[4]) const {
    const int b = F::Scales::kCols == 16 ? unit * 2 + m : unit;
    if constexpr (F::kFloats) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        __half2 numbers[2];
        codes.raw(unit, half, m, numbers);
        a[half] = as_bits(__hmul2(numbers[0], scales.scale(b, half)));
        a[half + 2] = as_bits(__hmul2(numbers[1], scales.scale(b, half)));
      }
    } else {
      integers(unit, m, b, a);
    }
  }

 private:
  // fragment() for codes that are integers, in block b.
  __device__ void integers(int unit, int m, int b, uint32_t (&a)[4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t pairs[2];
      half_pairs(codes, unit, half, m, pairs);
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        if constexpr (kSumsApart<F>) {
          // (1024 + code) * scale - 1024 * scale, rounded once.
          const int i = scales.at(b, half), n = scales.number(b, half);
          a[half + 2 * p] =
              as_bits(__hfma2(as_half2(pairs[p]), twice(factors[i], n), twice(thousands[i], n)));
        } else if constexpr (F::kHasMin) {
          const __half2 number = p == 0 ? less(pairs[0], 0)
                                        : __hfma2(as_half2(pairs[1]), __float2half2_rn(1.0f / kOdd),
                                                  __float2half2_rn(-1024.0f / kOdd));
          a[half + 2 * p] =
              as_bits(__hfma2(number, scales.scale(b, half), scales.minus_min(b, half)));
        } else {
          const __half2 number = less(pairs[p], p == 0 ? F::kOffset : F::kOffset * kOdd);
          a[half + 2 * p] = as_bits(__hmul2(number, scales.scale(b, half)));
        }
      }
    }
  }

 public:
  // The products of the lane's two rows are in this unit. `group` is the first record of the rows.
  __device__ static float row_unit(const char* group, int lane, int half) {
    if constexpr (F::kFloats) {
      return HalfScales<typename F::Scales>::row_unit(group + F::kRowsAt, lane, half);
    }
    return 1;
  }

  // The operand of HalfMins for the two parts from `record` on. Only the first `parts` of them
  // exist.
  __device__ static void mins(uint32_t (&mins)[2], const char* record, int parts, int lane) {
    const int part = lane % 4 / 2;
    const char* mine = record + part / F::kParts * F::kRecordBytes;
    HalfMins<F, typename F::Scales>::load(
        mins, mine + F::kScalesAt + part % F::kParts * F::Scales::kPartBytes, mine + F::kRowsAt,
        lane);
    if (part >= parts) mins[0] = mins[1] = 0;
  }
};

}  // namespace skald::cuda
