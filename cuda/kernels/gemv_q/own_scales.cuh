// The scales that a lane of gemv_q_sm90 holds: the scales of the blocks whose sums it has, the
// scales of rows, and the factors of sums of activations. With side = lane % 4 / 2 a lane has two
// blocks of 32 columns, from 2 * side on, or every second block of 16 columns, from `side` on; and
// rows lane / 4 (half 0) and lane / 4 + 8 (half 1). A block's scale is a float, scale(), or an
// integer, number(), in formats that also have a float for 256 columns of a row.
//
// offset() is the offset of a lane's numbers in a part or record, and load() loads them from there.
// The caller computes offsets once and keeps them in registers.
#pragma once

#include "cuda/kernels/tiles/tile_lane.cuh"

namespace skald::cuda {

// A row's floats for 256 columns.
struct NoRows {
  __device__ static int offset(int) { return 0; }
  __device__ void load(const char*) {}
};
struct OwnRows {
  uint32_t rows;
  __device__ static int offset(int lane) { return lane / 4 * 4; }
  __device__ void load(const char* at) { rows = load4(at); }
  __device__ float scale(int half) const { return half ? high_half(rows) : low_half(rows); }
};
struct OwnRowsMins {
  uint2 rows;
  __device__ static int offset(int lane) { return lane / 4 * 8; }
  __device__ void load(const char* at) { rows = load8(at); }
  __device__ float scale(int half) const { return low_half(half ? rows.y : rows.x); }
  __device__ float min(int half) const { return high_half(half ? rows.y : rows.x); }
};

// Numbers that a lane keeps in registers to find its own bytes in a word.
struct NoPlaces {
  __device__ explicit NoPlaces(int) {}
};

template <class S>
struct OwnScales;

template <class Block>
struct OwnScales<tiles::F16Scales<Block>> {
  using Rows = NoRows;
  using Places = NoPlaces;
  uint2 w;
  __device__ static int offset(int lane) { return lane / 4 * 16 + lane % 4 / 2 * 8; }
  __device__ void load(const char* at) { w = load8(at); }
  __device__ float scale(int i, int half) const {
    const uint32_t both = i ? w.y : w.x;
    return half ? high_half(both) : low_half(both);
  }
};

template <class Block>
struct OwnScales<tiles::F16Pairs<Block>> : OwnScales<tiles::F16Scales<Block>> {
  uint2 mins;  // minimums of both rows, as the left operand of a product
  __device__ static int mins_offset(int lane) {
    return tiles::F16Pairs<Block>::kMinsAt + lane / 4 * 16 + lane % 2 * 8;
  }
  __device__ void load_mins(const char* at) { mins = load8(at); }
};

template <>
struct OwnScales<tiles::ExponentScales> {
  using Rows = NoRows;
  using Places = NoPlaces;
  uint32_t w;
  __device__ static int offset(int lane) { return lane / 4 * 8 + lane % 4 / 2 * 4; }
  __device__ void load(const char* at) { w = load4(at); }
  // Twice mxfp4_scale() (see kScaleUnit): the exponents of two blocks of each row, read as bf16.
  // The smallest exponent, for scales below 2^-124, gives zero. The exponent 255 stands for no
  // number and gives infinity.
  __device__ float scale(int i, int half) const {
    const uint32_t both = half ? w >> 1 & 0x7f807f80 : (w & 0x00ff00ff) << 7;
    return __uint_as_float(i ? both & 0xffff0000 : both << 16);
  }
};

// Selects byte i of four for choose_bytes(), extended by zeros or by its sign.
SKALD_HD constexpr uint32_t unsigned_place(int i) { return 0x4440 + i; }
SKALD_HD constexpr uint32_t signed_place(int i) { return 0x8880 + i * 0x1111; }
__device__ inline int byte_at(uint32_t four, uint32_t place) {
  return static_cast<int>(choose_bytes(four, 0, place));
}

template <class Block>
struct OwnScales<tiles::BytePairs<Block>> {
  using Rows = OwnRowsMins;
  using Places = NoPlaces;
  uint32_t four;
  __device__ static int offset(int lane) { return lane / 4 * 8 + lane % 4 / 2 * 4; }
  __device__ void load(const char* at) { four = load4(at); }
  __device__ int number(int i, int half, const Places&) const {
    return byte_at(four, unsigned_place(tiles::byte_place(i, half)));
  }
};

template <class Block, int kDivisor>
struct OwnScales<tiles::ByteScales32<Block, kDivisor>> {
  using Rows = OwnRows;
  using Places = NoPlaces;
  uint32_t four;
  __device__ static int offset(int lane) { return lane / 4 * 8 + lane % 4 / 2 * 4; }
  __device__ void load(const char* at) { four = load4(at); }
  __device__ int number(int i, int half, const Places&) const {
    return byte_at(four, signed_place(tiles::byte_place(i, half)));
  }
};

// Blocks of 16 columns. number() is the scale of the lane's i-th block of four.
template <class Block, int kDivisor>
struct OwnScales<tiles::ByteScales<Block, kDivisor>> {
  using Rows = OwnRows;
  struct Places {
    uint32_t first;
    __device__ explicit Places(int lane) : first(held_number(signed_place(lane % 4 / 2))) {}
    __device__ uint32_t of_half(int half) const {
      return first + half * (signed_place(2) - signed_place(0));
    }
  };
  uint4 w;
  __device__ static int offset(int lane) { return lane / 4 * 16; }
  __device__ void load(const char* at) { w = load16(at); }
  __device__ int number(int i, int half, const Places& places) const {
    const uint32_t four = i / 2 ? (i % 2 ? w.w : w.z) : (i % 2 ? w.y : w.x);
    return byte_at(four, places.of_half(half));
  }
};

// Scales for lanes that have the sums of both blocks of unit lane % 4 in both rows: m is 0 for the
// unit's first 16 columns, 1 for its last 16.
template <class S>
struct UnitScales;
struct FourOfUnit {
  uint32_t four;
  __device__ static int offset(int lane) { return lane / 4 * 16 + lane % 4 * 4; }
  __device__ void load(const char* at) { four = load4(at); }
};
template <class Block>
struct UnitScales<tiles::FourBitPairs<Block>> : FourOfUnit {
  using Rows = OwnRowsMins;
  __device__ int number(int m, int half) const {
    return byte_at(four & 0x0f0f0f0f, unsigned_place(tiles::byte_place(m, half)));
  }
};
template <class Block>
struct UnitScales<tiles::ByteScales<Block>> : FourOfUnit {
  using Rows = OwnRows;
  __device__ int number(int m, int half) const {
    return byte_at(four, signed_place(tiles::byte_place(m, half)));
  }
};

// The factors of the sums of activations of 16 blocks: the lane has four blocks in both rows.
template <class S>
struct SumFactors {
  __device__ static int offset(int) { return 0; }
  __device__ void load(const char*) {}
};
// `eight` points to the bytes of two blocks in row lane / 4, of the same blocks in row lane / 4 +
// 8, and then of the next two blocks in both rows.
struct FourOfRows {
  uint32_t rows[2];
  __device__ void load(const char* eight) {
    const uint2 w = load8(eight);
    rows[0] = w.x, rows[1] = w.y;
  }
  __device__ uint32_t row(int half) const {
    return __byte_perm(rows[0], rows[1], half ? 0x7632 : 0x5410);
  }
};
template <class Block>
struct SumFactors<tiles::BytePairs<Block>> : FourOfRows {
  __device__ static int offset(int lane) { return tiles::BytePairs<Block>::kMinsAt + lane / 4 * 8; }
};
template <class Block>
struct SumFactors<tiles::FourBitPairs<Block>> : FourOfRows {
  __device__ static int offset(int lane) { return lane / 4 * 16 + lane % 2 * 8; }
  __device__ uint32_t row(int half) const { return FourOfRows::row(half) >> 4 & 0x0f0f0f0f; }
};
template <class Block>
struct SumFactors<tiles::ByteScales<Block>> : FourOfRows {
  __device__ static int offset(int lane) { return lane / 4 * 16 + lane % 2 * 8; }
};

}  // namespace skald::cuda
