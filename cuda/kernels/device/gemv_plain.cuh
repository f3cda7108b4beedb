// out = W · in for a few rows, on any GPU, for any type and any size: the reference for the faster
// kernels. One warp computes an output row (for a gated pair, gate and up). It reads each weight
// once for a group of kPlainRows activation rows. W is a functor that returns the weight at a row
// and a column.
#pragma once

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kPlainRows = 4;
inline constexpr int kPlainWarps = 4;

template <class T, class W>
__device__ void dot(const LinearLaunch& a, const W& weight, int64_t out, int first, int count,
                    float* sums) {
  for (int r = 0; r < kPlainRows; ++r) sums[r] = 0;
  for (int64_t i = threadIdx.x % 32; i < a.ins; i += 32) {
    const float w = weight(out, i);
#pragma unroll
    for (int r = 0; r < kPlainRows; ++r) {
      if (r < count) sums[r] += w * to_float(static_cast<const T*>(a.in)[(first + r) * a.ins + i]);
    }
  }
  for (int r = 0; r < kPlainRows; ++r) sums[r] = warp_sum(sums[r]) + (a.bias ? a.bias[out] : 0);
}

template <class T, class W>
__global__ void gemv_plain(LinearLaunch a) {
  const W weight(a);
  const int64_t out = int64_t{blockIdx.x} * kPlainWarps + threadIdx.x / 32;
  const bool gated = a.epilogue == Epilogue::Gated;
  const int64_t outs = gated ? a.outs / 2 : a.outs;
  if (out >= outs) return;
  const int first = blockIdx.y * kPlainRows;
  const int count = min(kPlainRows, a.rows - first);
  float sums[kPlainRows], ups[kPlainRows];
  dot<T>(a, weight, gated ? 2 * out : out, first, count, sums);
  if (gated) dot<T>(a, weight, 2 * out + 1, first, count, ups);
  if (threadIdx.x % 32 != 0) return;
#pragma unroll
  for (int r = 0; r < kPlainRows; ++r) {
    if (r >= count) return;
    const int64_t at = (first + r) * a.out_stride + out;
    switch (a.epilogue) {
      case Epilogue::Store:
        static_cast<T*>(a.out)[at] =
            from_float<T>(a.activates ? activate(sums[r], a.activation) : sums[r]);
        break;
      case Epilogue::AddTo:
        static_cast<float*>(a.out)[at] += a.scale * sums[r];
        break;
      case Epilogue::Floats:
      case Epilogue::Logits:
        static_cast<float*>(a.out)[at] = sums[r];
        break;
      case Epilogue::Gated:
        static_cast<T*>(a.out)[at] = from_float<T>(activate(sums[r], a.activation) * ups[r]);
        break;
    }
  }
}

// The kernel constructs W from the launch.
template <class T, class W>
void launch_plain(const LinearLaunch& a, Stream stream) {
  const int64_t outs = a.epilogue == Epilogue::Gated ? a.outs / 2 : a.outs;
  const dim3 blocks(static_cast<unsigned>((outs + kPlainWarps - 1) / kPlainWarps),
                    static_cast<unsigned>((a.rows + kPlainRows - 1) / kPlainRows));
  launch_kernel(gemv_plain<T, W>, {blocks, kPlainWarps * 32}, stream, a);
}

}  // namespace skald::cuda
