// A lane's weights of a part of a tile as f16 numbers, in the order of a product's left operand:
// code times scale, less the minimum, each step rounded to f16 once. tile_lane.cuh has the codes.
#pragma once

#include "cuda/kernels/device/tile_lane.cuh"

namespace skald::cuda {

__device__ inline __half2 as_half2(uint32_t bits) { return *reinterpret_cast<__half2*>(&bits); }
__device__ inline uint32_t as_bits(__half2 both) { return *reinterpret_cast<uint32_t*>(&both); }

// Whole numbers below 1024 become f16 by their bits in one of 1024.
inline constexpr uint32_t kThousands = 0x64006400;
__device__ inline __half2 whole(uint32_t bits, float less) {
  return __hsub2(as_half2(bits | kThousands), __float2half2_rn(1024 + less));
}
__device__ inline __half2 whole_twice(uint32_t number, float less) {
  return __hsub2(as_half2(number * 0x10001u + kThousands), __float2half2_rn(1024 + less));
}
// Byte i of a word, twice.
__device__ inline __half2 whole_byte(uint32_t word, int i, float less) {
  return __hsub2(as_half2(__byte_perm(word, 0x64, 0x4040 + i * 0x0101)),
                 __float2half2_rn(1024 + less));
}
__device__ inline __half2 low_twice(uint32_t both) {
  return as_half2(__byte_perm(both, 0, 0x1010));
}
__device__ inline __half2 high_twice(uint32_t both) {
  return as_half2(__byte_perm(both, 0, 0x3232));
}

// HalfScales<S>: scale() of LaneScales with row() in it, and minus_min(), twice each.
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
    return half ? high_twice(both) : low_twice(both);
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
    return b % 2 ? high_twice(two) : low_twice(two);
  }
};

struct HalfRowScales {
  uint32_t rows;
  __device__ void load_rows(const char* at, int lane) { rows = load4(at + lane / 4 * 4); }
  __device__ __half2 row(int half) const { return half ? high_twice(rows) : low_twice(rows); }
};

struct HalfRowScalesMins {
  uint2 rows;
  __device__ void load_rows(const char* at, int lane) {
    rows = load8(at + lane / 4 * 8);
    rows.x ^= 0x80000000, rows.y ^= 0x80000000;
  }
  __device__ __half2 row(int half) const { return low_twice(half ? rows.y : rows.x); }
  __device__ __half2 minus_row_min(int half) const { return high_twice(half ? rows.y : rows.x); }
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
    return __hmul2(whole_byte(half ? w.y : w.x, b, 0), row(half));
  }
  __device__ __half2 minus_min(int b, int half) const {
    return __hmul2(whole_byte(b / 2 ? mins.y : mins.x, half * 2 + b % 2, 0), minus_row_min(half));
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
    return __hmul2(whole_twice(word_of(w, b, half) >> (b % 4 * 8) & 15, 0), row(half));
  }
  __device__ __half2 minus_min(int b, int half) const {
    return __hmul2(whole_twice(word_of(w, b, half) >> (b % 4 * 8 + 4) & 15, 0),
                   minus_row_min(half));
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
    return __hmul2(whole_byte(word_of(w, b, half), b % 4, 128), row(half));
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
    return __hmul2(whole_twice(static_cast<uint32_t>(fields.at(half * 8 + b)), 32), row(half));
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
    return __hmul2(whole_byte(half ? w.y : w.x, b, 32), row(half));
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
      codes.pairs(unit, half, m, pairs[0], pairs[1]);
      const __half2 scale = scales.scale(b, half);
      const __half2 numbers[2] = {
          whole(pairs[0], F::kOffset),
          kOdd == 1 ? whole(pairs[1], F::kOffset)
                    : __hfma2(as_half2(pairs[1] | kThousands), __float2half2_rn(1 / kOdd),
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
