// A lane's minimums as floats, indexed like LaneScales::scale(). They are not part of LaneScales:
// most of its users need no minimums, or need them as an operand of a product (own_scales.cuh).
#pragma once

#include "cuda/kernels/tiles/tile_lane.cuh"

namespace skald::cuda {

template <class S>
struct LaneMins;

template <class Block>
struct LaneMins<tiles::F16Pairs<Block>> {
  uint4 w;
  __device__ void load(const char* part, int lane) {
    w = load16(part + tiles::F16Pairs<Block>::kMinsAt + lane / 4 * 16);
  }
  __device__ float min(int b, int half) const {
    const uint32_t two = b / 2 ? (half ? w.w : w.z) : (half ? w.y : w.x);
    return b % 2 ? high_half(two) : low_half(two);
  }
};

template <class Block>
struct LaneMins<tiles::BytePairs<Block>> {
  uint2 w;
  __device__ void load(const char* part, int lane) {
    w = load8(part + tiles::BytePairs<Block>::kMinsAt + lane / 4 * 8);
  }
  __device__ float min(int b, int half) const {
    return static_cast<float>((b / 2 ? w.y : w.x) >> (half * 16 + b % 2 * 8) & 255);
  }
};

template <class Block>
struct LaneMins<tiles::FourBitPairs<Block>> {
  SixteenBytes bytes;
  __device__ void load(const char* part, int lane) { bytes.w = load16(part + lane / 4 * 16); }
  __device__ float min(int b, int half) const { return static_cast<float>(bytes.at(b, half) >> 4); }
};

}  // namespace skald::cuda
