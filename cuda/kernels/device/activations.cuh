// Brings a product's activation rows into shared memory as 16-bit numbers, normalized on the way
// where the launch asks for it. For the kConsumers first threads of a block, which call together
// and meet before they read the rows.
#pragma once

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kConsumers = 256;
inline constexpr int kConsumerWarps = kConsumers / 32;

__device__ inline void consumers_meet() {
  asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

template <class T>
__device__ void copy_activations(const LinearLaunch& a, T* activations, int row_stride) {
  wait_for_kernel_ahead();
  constexpr int kEach = 8, kInFlight = 8;
  const int each_row = static_cast<int>(a.ins) / kEach, count = a.rows * each_row;
  const uint4* in = static_cast<const uint4*>(a.in);
#pragma unroll 1
  for (int first = threadIdx.x; first < count; first += kInFlight * kConsumers) {
    uint4 eight[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i * kConsumers < count) eight[i] = __ldcg(in + first + i * kConsumers);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int at = first + i * kConsumers;
      if (at >= count) break;
      const int row = a.rows == 1 ? 0 : at / each_row;
      T* to = activations + row * row_stride + (at - row * each_row) * kEach;
      *reinterpret_cast<uint4*>(to) = eight[i];
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
__device__ inline float norm_scale(const LinearLaunch& a, float sum) {
  return rsqrtf(sum / static_cast<float>(a.ins) + a.norm_eps);
}

// These wait for the kernel ahead; norm weights come before that.
//
// A row's squares are added up by thread, each every kConsumers-th float4, then over each 32
// threads, then over these sums: by the whole block where there is one row, else by one warp a row.
template <class T>
__device__ void norm_one_row(const LinearLaunch& a, T* activations, float* scratch) {
  constexpr int kKept = 4;  // of a thread's float4: all of a row of up to 4096
  const float* in = static_cast<const float*>(a.in);
  const int count = static_cast<int>(a.ins / 4), mine = static_cast<int>(threadIdx.x);
  float4 x[kKept], weight[kKept];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    if (mine + i * kConsumers < count) weight[i] = load4(a.norm_weight, mine + i * kConsumers);
  }
  wait_for_kernel_ahead();
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    x[i] = mine + i * kConsumers < count ? load4(in, mine + i * kConsumers) : float4{};
  }
#pragma unroll
  for (int i = 0; i < kKept; ++i) sum += squares(x[i]);
#pragma unroll 1
  for (int at = mine + kKept * kConsumers; at < count; at += kConsumers) {
    sum += squares(load4(in, at));
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sum;
  consumers_meet();
  sum = 0;
#pragma unroll
  for (int warp = 0; warp < kConsumerWarps; ++warp) sum += scratch[warp];
  const float scale = norm_scale(a, sum);
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int at = mine + i * kConsumers;
    if (at < count) store_normed(activations, at, x[i], weight[i], scale);
  }
#pragma unroll 1
  for (int at = mine + kKept * kConsumers; at < count; at += kConsumers) {
    store_normed(activations, at, load4(in, at), load4(a.norm_weight, at), scale);
  }
}

template <class T>
__device__ void norm_rows(const LinearLaunch& a, T* activations, int row_stride) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int count = static_cast<int>(a.ins / 4);
  constexpr int kLine = 128 / sizeof(float);
  for (int64_t i = threadIdx.x * kLine; i < a.ins; i += kConsumers * kLine) {
    prefetch_l2(a.norm_weight + i);
  }
  wait_for_kernel_ahead();
  for (int row = warp; row < a.rows; row += kConsumerWarps) {
    const float* in = static_cast<const float*>(a.in) + row * a.ins;
    float total = 0;
#pragma unroll 2
    for (int part = 0; part < kConsumerWarps; ++part) {
      float sum = 0;
#pragma unroll 4
      for (int at = part * 32 + lane; at < count; at += kConsumers) sum += squares(load4(in, at));
      total += warp_sum(sum);
    }
    const float scale = norm_scale(a, total);
#pragma unroll 4
    for (int at = lane; at < count; at += 32) {
      store_normed(activations + row * row_stride, at, load4(in, at), load4(a.norm_weight, at),
                   scale);
    }
  }
}

}  // namespace skald::cuda
