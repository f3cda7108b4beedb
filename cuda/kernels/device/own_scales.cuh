// What a lane of gemv_q_sm90's product of one row has of scales: of the blocks of a part whose sums
// it has, of rows, and what is multiplied with sums of activations. With side = lane % 4 / 2: of
// blocks of 32 columns the two from 2 * side on, of blocks of 16 every second one from `side` on;
// rows lane / 4 (half 0) and the eighth after it. Blocks' scales are floats, scale(), or whole
// numbers, number(), where a row has a float for 256 columns besides.
#pragma once

#include "cuda/kernels/device/tile_lane.cuh"

namespace skald::cuda {

// What rows have for 256 columns.
struct NoRows {
  __device__ void load(const char*, int) {}
};
struct OwnRows {
  uint32_t rows;
  __device__ void load(const char* at, int lane) { rows = load4(at + lane / 4 * 4); }
  __device__ float scale(int half) const { return half ? high_half(rows) : low_half(rows); }
};
struct OwnRowsMins {
  uint2 rows;
  __device__ void load(const char* at, int lane) { rows = load8(at + lane / 4 * 8); }
  __device__ float scale(int half) const { return low_half(half ? rows.y : rows.x); }
  __device__ float min(int half) const { return high_half(half ? rows.y : rows.x); }
};

template <class S>
struct OwnScales;

template <class Block>
struct OwnScales<tiles::F16Scales<Block>> {
  using Rows = NoRows;
  uint2 w;
  __device__ void load(const char* part, int lane, int side) {
    w = load8(part + lane / 4 * 16 + side * 8);
  }
  __device__ float scale(int i, int half) const {
    const uint32_t both = i ? w.y : w.x;
    return half ? high_half(both) : low_half(both);
  }
};

template <class Block>
struct OwnScales<tiles::F16Pairs<Block>> : OwnScales<tiles::F16Scales<Block>> {
  uint2 mins;  // of both rows, as the left side of a product
  __device__ void load(const char* part, int lane, int side) {
    OwnScales<tiles::F16Scales<Block>>::load(part, lane, side);
    mins = load8(part + tiles::F16Pairs<Block>::kMinsAt + lane / 4 * 16 + lane % 2 * 8);
  }
};

template <>
struct OwnScales<tiles::ExponentScales> {
  using Rows = NoRows;
  uint32_t w;
  __device__ void load(const char* part, int lane, int side) {
    w = load4(part + lane / 4 * 8 + side * 4);
  }
  // mxfp4_scale(): of small exponents, which are subnormal, the bits are the larger of these two.
  __device__ float scale(int i, int half) const {
    const int exponent = static_cast<int>(__byte_perm(w, 0, 0x4440 + i * 2 + half));
    return __int_as_float(max((exponent - 1) * (1 << 23), (exponent + 1) * (1 << 21)));
  }
};

// Byte i of four.
__device__ inline int unsigned_byte(uint32_t four, int i) {
  return static_cast<int>(__byte_perm(four, 0, 0x4440 + i));
}
__device__ inline int signed_byte(uint32_t four, int i) {
  return static_cast<int>(choose_bytes(four, 0, 0x8880 + i * 0x1111));
}
// Four numbers from 0 to 63, each less 32, as signed bytes.
__device__ inline uint32_t less_32(uint32_t four) { return (four + 0x60606060) ^ 0x80808080; }

template <class Block>
struct OwnScales<tiles::BytePairs<Block>> {
  using Rows = OwnRowsMins;
  uint32_t four;
  __device__ void load(const char* part, int lane, int side) {
    four = load4(part + lane / 4 * 8 + side * 4);
  }
  __device__ int number(int i, int half) const {
    return unsigned_byte(four, tiles::byte_place(i, half));
  }
};

template <class Block>
struct OwnScales<tiles::SixBitScales32<Block>> {
  using Rows = OwnRows;
  uint32_t four;
  __device__ void load(const char* part, int lane, int side) {
    four = load4(part + lane / 4 * 8 + side * 4);
  }
  __device__ int number(int i, int half) const {
    return signed_byte(less_32(four), tiles::byte_place(i, half));
  }
};

// Of blocks of 16 columns: i-th of a lane's four.
struct OwnBytes {
  uint4 w;
  int side;
  __device__ void load(const char* part, int lane, int side) {
    w = load16(part + lane / 4 * 16);
    this->side = side;
  }
  __device__ uint32_t four(int i) const {
    return i / 2 ? (i % 2 ? w.w : w.z) : (i % 2 ? w.y : w.x);
  }
  __device__ int place(int half) const { return half * 2 + side; }
};

template <class Block>
struct OwnScales<tiles::FourBitPairs<Block>> {
  using Rows = OwnRowsMins;
  OwnBytes bytes;
  __device__ void load(const char* part, int lane, int side) { bytes.load(part, lane, side); }
  __device__ int number(int i, int half) const {
    return unsigned_byte(bytes.four(i) & 0x0f0f0f0f, bytes.place(half));
  }
};

template <class Block>
struct OwnScales<tiles::ByteScales<Block>> {
  using Rows = OwnRows;
  OwnBytes bytes;
  __device__ void load(const char* part, int lane, int side) { bytes.load(part, lane, side); }
  __device__ int number(int i, int half) const {
    return signed_byte(bytes.four(i), bytes.place(half));
  }
};

template <class Block>
struct OwnScales<tiles::SixBitScales16<Block>> {
  using Rows = OwnRows;
  uint32_t w[3];
  int side;
  __device__ void load(const char* part, int lane, int side) {
    const char* at = part + lane / 4 * 12;
#pragma unroll
    for (int i = 0; i < 3; ++i) w[i] = load4(at + i * 4);
    this->side = side;
  }
  // Fields 4 * i to 4 * i + 3 are blocks 2 * i and the next of both rows.
  __device__ int number(int i, int half) const {
    const int word = i * 24 / 32, bit = i * 24 % 32;
    const uint32_t fields = __funnelshift_r(w[word], w[min(word + 1, 2)], bit);
    return static_cast<int>(fields >> ((half * 2 + side) * 6) & 63) - 32;
  }
};

// What is multiplied with sums of activations, by 16 blocks: the lane's four, of both rows.
template <class S>
struct SumFactors {
  __device__ void load(const char*, int) {}
};
// `eight`: bytes of two blocks of row lane / 4, of the eighth after it, and of the next two blocks.
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
struct SumFactors<tiles::BytePairs<Block>> {
  FourOfRows four;
  __device__ void load(const char* part, int lane) {
    four.load(part + tiles::BytePairs<Block>::kMinsAt + lane / 4 * 8);
  }
  __device__ uint32_t row(int half) const { return four.row(half); }
};
template <class Block>
struct SumFactors<tiles::FourBitPairs<Block>> {
  FourOfRows four;
  __device__ void load(const char* part, int lane) {
    four.load(part + lane / 4 * 16 + lane % 2 * 8);
  }
  __device__ uint32_t row(int half) const { return four.row(half) >> 4 & 0x0f0f0f0f; }
};
template <class Block>
struct SumFactors<tiles::ByteScales<Block>> {
  FourOfRows four;
  __device__ void load(const char* part, int lane) {
    four.load(part + lane / 4 * 16 + lane % 2 * 8);
  }
  __device__ uint32_t row(int half) const { return four.row(half); }
};

}  // namespace skald::cuda
