// Shared by the kernels of quantize.cu: a thread's group of weights in the form that
// engine/quant/fit_search.h needs, and loads and stores.
#pragma once

#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/tiles/quantize.h"
#include "engine/quant/encode.h"
#include "engine/quant/fit_search.h"

namespace skald::cuda {

// Eight floats in one thread's registers.
struct Eight {
  float x[8] = {};

  __device__ __forceinline__ float operator[](int i) const { return x[i]; }
  __device__ __forceinline__ Eight& operator+=(const Eight& other) {
    for (int i = 0; i < 8; ++i) x[i] += other.x[i];
    return *this;
  }
  __device__ __forceinline__ friend Eight operator*(const Eight& a, const Eight& b) {
    Eight out;
    for (int i = 0; i < 8; ++i) out.x[i] = a.x[i] * b.x[i];
    return out;
  }
  __device__ __forceinline__ friend Eight operator-(const Eight& a, const Eight& b) {
    Eight out;
    for (int i = 0; i < 8; ++i) out.x[i] = a.x[i] - b.x[i];
    return out;
  }
  __device__ __forceinline__ friend Eight operator*(const Eight& a, float b) {
    Eight out;
    for (int i = 0; i < 8; ++i) out.x[i] = a.x[i] * b;
    return out;
  }
  __device__ __forceinline__ friend Eight operator+(const Eight& a, float b) {
    Eight out;
    for (int i = 0; i < 8; ++i) out.x[i] = a.x[i] + b;
    return out;
  }
  __device__ __forceinline__ friend Eight operator-(const Eight& a, float b) {
    Eight out;
    for (int i = 0; i < 8; ++i) out.x[i] = a.x[i] - b;
    return out;
  }
};

template <int kCount>
struct DeviceGroup {
  using Vec = Eight;
  static constexpr int kElems = kCount;
  Eight v[kCount / 8];

  __device__ __forceinline__ void load(int i, Eight& out) const { out = v[i]; }
  __device__ __forceinline__ float at(int i) const { return v[i / 8].x[i % 8]; }
  __device__ __forceinline__ static float sum(const Eight& v) {
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
  }
  __device__ __forceinline__ static void to_grid(Eight& v, float lowest, float highest) {
    constexpr float kShift = 0x1.8p23f;
    for (int i = 0; i < 8; ++i) {
      v.x[i] = (fminf(fmaxf(v.x[i], lowest), highest) + kShift) - kShift;
    }
  }
};

template <int kCount, class T>
__device__ __forceinline__ void load_weights(const T* from, DeviceGroup<kCount>& to) {
  constexpr int kEach = 16 / static_cast<int>(sizeof(T));
  for (int i = 0; i < kCount / kEach; ++i) {
    const auto pack = reinterpret_cast<const Pack<T, kEach>*>(from)[i];
    for (int j = 0; j < kEach; ++j) {
      const int at = i * kEach + j;
      to.v[at / 8].x[at % 8] = to_float(pack.x[j]);
    }
  }
}

// Loads the group that begins at weight `first`. If the format cannot hold a weight, a.unfit gets
// the number of its row.
template <int kCount>
__device__ __forceinline__ DeviceGroup<kCount> load_group(const QuantizeLaunch& a, int64_t first) {
  DeviceGroup<kCount> group;
  switch (a.from) {
    case DType::F32:
      load_weights(static_cast<const float*>(a.weights) + first, group);
      break;
    case DType::F16:
      load_weights(static_cast<const Half*>(a.weights) + first, group);
      break;
    default:
      load_weights(static_cast<const Bf16*>(a.weights) + first, group);
  }
  bool fits = true;
  for (int i = 0; i < kCount; ++i) fits &= search::magnitude(group.at(i)) <= kLargestWeight;
  if (!fits) atomicMin(a.unfit, a.first_row + static_cast<unsigned long long>(first / a.cols));
  return group;
}

// The put() argument of search::round_to_grid(): stores codes as bytes.
struct PutCodes {
  uint8_t* codes;
  int offset;
  __device__ __forceinline__ void operator()(int i, const Eight& v) const {
    for (int j = 0; j < 8; ++j) {
      codes[i * 8 + j] = static_cast<uint8_t>(static_cast<int>(v[j]) + offset);
    }
  }
};

// Copies neighbouring blocks from shared to global memory. All threads of the block take part.
template <class Block, int kThreads>
__device__ __forceinline__ void write_blocks(const Block* made, int count, Block* to) {
  static_assert(sizeof(Block) % 2 == 0 && alignof(Block) == 2);
  const auto* from = reinterpret_cast<const uint16_t*>(made);
  auto* out = reinterpret_cast<uint16_t*>(to);
  const int words = count * static_cast<int>(sizeof(Block)) / 2;
  for (int i = threadIdx.x; i < words; i += kThreads) out[i] = from[i];
}

}  // namespace skald::cuda
