// The scales of the blocks of a part whose sums a lane has in gemv_q_sm90's product of one row.
// With side = lane % 4 / 2: of blocks of 32 columns the two from 2 * side on, of blocks of 16 every
// second one from `side` on; rows lane / 4 (half 0) and the eighth after it. As LaneScales
// otherwise.
#pragma once

#include "cuda/kernels/device/tile_lane.cuh"

namespace skald::cuda {

template <class S>
struct OwnScales;

template <class Block>
struct OwnScales<tiles::F16Scales<Block>> : NoRowScales {
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
  uint2 two;
  __device__ void load(const char* part, int lane, int side) {
    OwnScales<tiles::F16Scales<Block>>::load(part, lane, side);
    two = load8(part + tiles::F16Pairs<Block>::kMinsAt + lane / 4 * 16 + lane % 2 * 8);
  }
  __device__ void mins(uint32_t (&rows)[2]) const {
    rows[0] = two.x;
    rows[1] = two.y;
  }
};

template <>
struct OwnScales<tiles::ExponentScales> : NoRowScales {
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

// A whole number below 2^23 by its bits in the float that is so much larger, less what it is too
// large by.
inline constexpr uint32_t kEightMillions = 0x4b000000;
__device__ inline float number_less(uint32_t bits, int less) {
  return __uint_as_float(bits) - (8388608.0f + static_cast<float>(less));
}
// Byte i of four.
__device__ inline float byte_less(uint32_t four, int i, int less) {
  return number_less(__byte_perm(four, kEightMillions, 0x7540 + i), less);
}

template <class Block>
struct OwnScales<tiles::BytePairs<Block>> : RowScalesMins {
  uint32_t four, four_mins;
  __device__ void load(const char* part, int lane, int side) {
    four = load4(part + lane / 4 * 8 + side * 4);
    four_mins = load4(part + tiles::BytePairs<Block>::kMinsAt + lane / 4 * 8 + lane % 2 * 4);
  }
  __device__ float scale(int i, int half) const {
    return byte_less(four, tiles::byte_place(i, half), 0);
  }
  __device__ void mins(uint32_t (&rows)[2]) const { spread_bytes(four_mins, rows[0], rows[1]); }
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
struct OwnScales<tiles::FourBitPairs<Block>> : RowScalesMins {
  OwnBytes bytes;
  uint32_t four_mins;  // of blocks 2 * (lane % 4) and the next
  __device__ void load(const char* part, int lane, int side) {
    bytes.load(part, lane, side);
    four_mins = load4(part + lane / 4 * 16 + lane % 4 * 4);
  }
  __device__ float scale(int i, int half) const {
    return byte_less(bytes.four(i) & 0x0f0f0f0f, bytes.place(half), 0);
  }
  __device__ void mins(uint32_t (&rows)[2]) const {
    spread_bytes(four_mins >> 4 & 0x0f0f0f0f, rows[0], rows[1]);
  }
};

template <class Block>
struct OwnScales<tiles::ByteScales<Block>> : RowScales {
  OwnBytes bytes;
  __device__ void load(const char* part, int lane, int side) { bytes.load(part, lane, side); }
  __device__ float scale(int i, int half) const {
    return byte_less(bytes.four(i) ^ 0x80808080, bytes.place(half), 128);
  }
};

template <class Block>
struct OwnScales<tiles::SixBitScales16<Block>> : RowScales {
  uint32_t w[3];
  int side;
  __device__ void load(const char* part, int lane, int side) {
    const char* at = part + lane / 4 * 12;
#pragma unroll
    for (int i = 0; i < 3; ++i) w[i] = load4(at + i * 4);
    this->side = side;
  }
  // Fields 4 * i to 4 * i + 3 are blocks 2 * i and the next of both rows.
  __device__ float scale(int i, int half) const {
    const int word = i * 24 / 32, bit = i * 24 % 32;
    const uint32_t fields = __funnelshift_r(w[word], w[min(word + 1, 2)], bit);
    return number_less((fields >> ((half * 2 + side) * 6) & 63) | kEightMillions, 32);
  }
};

template <class Block>
struct OwnScales<tiles::SixBitScales32<Block>> : RowScales {
  uint32_t four;
  __device__ void load(const char* part, int lane, int side) {
    four = load4(part + lane / 4 * 8 + side * 4);
  }
  __device__ float scale(int i, int half) const {
    return byte_less(four, tiles::byte_place(i, half), 32);
  }
};

}  // namespace skald::cuda
