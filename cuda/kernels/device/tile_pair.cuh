// The scales of two blocks of a part, as gemv_q_sm90 wants them for one row: of blocks 2 * pair and
// the next, rows lane / 4 (half 0) and the eighth after it. As LaneScales otherwise.
#pragma once

#include "cuda/kernels/device/tile_lane.cuh"

namespace skald::cuda {

template <class S>
struct PairScales;

template <class Block>
struct PairScales<tiles::F16Scales<Block>> : NoRowScales {
  uint2 w;
  __device__ void load(const char* part, int lane, int pair) {
    w = load8(part + lane / 4 * 16 + pair * 8);
  }
  __device__ float scale(int i, int half) const {
    const uint32_t both = i ? w.y : w.x;
    return half ? high_half(both) : low_half(both);
  }
};

template <class Block>
struct PairScales<tiles::F16Pairs<Block>> : PairScales<tiles::F16Scales<Block>> {
  static constexpr float kMinUnit = 1;
  uint2 two;
  __device__ void load(const char* part, int lane, int pair) {
    PairScales<tiles::F16Scales<Block>>::load(part, lane, pair);
    two = load8(part + tiles::F16Pairs<Block>::kMinsAt + lane / 4 * 16 + lane % 2 * 8);
  }
  __device__ void mins(uint32_t (&rows)[2]) const {
    rows[0] = two.x;
    rows[1] = two.y;
  }
};

template <>
struct PairScales<tiles::ExponentScales> : NoRowScales {
  uint32_t w;
  __device__ void load(const char* part, int lane, int pair) {
    w = load4(part + lane / 4 * 8 + pair * 4);
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
struct PairScales<tiles::BytePairs<Block>> : RowScalesMins {
  uint32_t four, four_mins;
  __device__ void load(const char* part, int lane, int pair) {
    const char* at = part + lane / 4 * 8 + pair * 4;
    four = load4(at);
    four_mins = load4(at + tiles::BytePairs<Block>::kMinsAt);
  }
  __device__ float scale(int i, int half) const {
    return byte_less(four, tiles::byte_place(i, half), 0);
  }
  __device__ void mins(uint32_t (&rows)[2]) const { spread_bytes(four_mins, rows[0], rows[1]); }
};

template <class Block>
struct PairScales<tiles::FourBitPairs<Block>> : RowScalesMins {
  uint32_t four;
  __device__ void load(const char* part, int lane, int pair) {
    four = load4(part + lane / 4 * 16 + pair * 4);
  }
  __device__ float scale(int i, int half) const {
    return byte_less(four & 0x0f0f0f0f, tiles::byte_place(i, half), 0);
  }
  __device__ void mins(uint32_t (&rows)[2]) const {
    spread_bytes(four >> 4 & 0x0f0f0f0f, rows[0], rows[1]);
  }
};

template <class Block>
struct PairScales<tiles::ByteScales<Block>> : RowScales {
  uint32_t four;
  __device__ void load(const char* part, int lane, int pair) {
    four = load4(part + lane / 4 * 16 + pair * 4);
  }
  __device__ float scale(int i, int half) const {
    return byte_less(four ^ 0x80808080, tiles::byte_place(i, half), 128);
  }
};

template <class Block>
struct PairScales<tiles::SixBitScales16<Block>> : RowScales {
  uint32_t four;
  __device__ void load(const char* part, int lane, int pair) {
    const char* at = part + lane / 4 * 12;
    const int word = pair * 24 / 32, bit = pair * 24 % 32;
    four = __funnelshift_r(load4(at + word * 4), load4(at + min(word + 1, 2) * 4), bit);
  }
  __device__ float scale(int i, int half) const {
    return number_less((four >> ((half * 2 + i) * 6) & 63) | kEightMillions, 32);
  }
};

template <class Block>
struct PairScales<tiles::SixBitScales32<Block>> : RowScales {
  uint32_t four;
  __device__ void load(const char* part, int lane, int pair) {
    four = load4(part + lane / 4 * 8 + pair * 4);
  }
  __device__ float scale(int i, int half) const {
    return byte_less(four, tiles::byte_place(i, half), 32);
  }
};

}  // namespace skald::cuda
