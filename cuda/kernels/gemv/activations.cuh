// Brings the activation rows of gemv_sm90 into shared memory as 16-bit numbers, normed on the way
// if the launch has norm weights. The first kConsumers threads of a block call these functions
// together, and synchronize before they read the rows.
#pragma once

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/gemv/gemv_layout.h"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

__device__ inline void consumers_synchronize() {
  asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

template <class T>
__device__ void copy_activations(const LinearLaunch& a, T* activations, int row_stride) {
  wait_for_kernel_ahead();
  constexpr int kEach = 8, kInFlight = 16;
  const int each_row = static_cast<int>(a.ins) / kEach, count = a.rows * each_row;
  const uint4* in = static_cast<const uint4*>(a.in);
  int row = 0, col = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int first = threadIdx.x; first < count; first += kInFlight * kConsumers) {
    uint4 some[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * kConsumers < count) some[i] = __ldcg(in + first + i * kConsumers);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * kConsumers >= count) break;
      for (; col >= each_row; col -= each_row) ++row;
      *reinterpret_cast<uint4*>(activations + row * row_stride + col * kEach) = some[i];
      col += kConsumers;
    }
  }
}

__device__ inline float4 load4(const float* row, int at) {
  return __ldcg(reinterpret_cast<const float4*>(row) + at);
}
__device__ inline float squares(float4 x) { return x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w; }
template <class T>
__device__ void store_normed(T* row, int at, float4 x, float4 weight, float scale) {
  reinterpret_cast<uint2*>(row)[at] = {pack(T(), x.x * scale * weight.x, x.y * scale * weight.y),
                                       pack(T(), x.z * scale * weight.z, x.w * scale * weight.w)};
}
// `share`: 1 / number of columns.
__device__ inline float norm_scale(const LinearLaunch& a, float sum, float share) {
  return rsqrtf(sum * share + a.norm_eps);
}

// A row's squares are added in the order that gemv_row_sm90 has with kConsumers threads: each
// thread adds every kConsumers-th float4, then each warp the sums of its 32 threads, then the sums
// of the warps are added. So one row and several rows are normed alike.
//
// Here one warp norms a whole row: it computes the sums of all kConsumerWarps warps, with kEach
// float4 of each in flight. It reads a row of up to 2048 columns once.
template <class T>
__device__ void norm_rows(const LinearLaunch& a, T* activations, int row_stride) {
  constexpr int kLine = 128 / sizeof(float), kEach = 2, kChunk = kEach * kConsumers;
  for (int64_t i = threadIdx.x * kLine; i < a.ins; i += kConsumers * kLine) {
    prefetch_l2(a.norm_weight + i);
  }
  wait_for_kernel_ahead();
  const int lane = static_cast<int>(threadIdx.x) % 32, count = static_cast<int>(a.ins / 4);
  const float4* weights = reinterpret_cast<const float4*>(a.norm_weight);
  const float share = 1 / static_cast<float>(a.ins);
  for (int row = static_cast<int>(threadIdx.x) / 32; row < a.rows; row += kConsumerWarps) {
    const float* in = static_cast<const float*>(a.in) + row * a.ins;
    const auto place = [&](int i, int part) { return i * kConsumers + part * 32 + lane; };
    float4 x[kEach][kConsumerWarps];
    const auto load = [&](int first) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int part = 0; part < kConsumerWarps; ++part) {
          const int at = first + place(i, part);
          x[i][part] = at < count ? load4(in, at) : float4{};
        }
      }
    };
    float sums[kConsumerWarps] = {};
#pragma unroll 1
    for (int first = 0; first < count; first += kChunk) {
      load(first);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int part = 0; part < kConsumerWarps; ++part) sums[part] += squares(x[i][part]);
      }
    }
    float total = 0;
#pragma unroll
    for (float sum : sums) total += warp_sum(sum);
    const float scale = norm_scale(a, total, share);
#pragma unroll 1
    for (int first = 0; first < count; first += kChunk) {
      if (count > kChunk) load(first);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int part = 0; part < kConsumerWarps; ++part) {
          const int at = first + place(i, part);
          if (at < count) {
            store_normed(activations + row * row_stride, at, x[i][part], __ldg(weights + at),
                         scale);
          }
        }
      }
    }
  }
}

}  // namespace skald::cuda
