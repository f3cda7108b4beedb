// out = W · in for a few rows, on any GPU, any type and any size. One warp an output row (two for a
// gated pair's gate and up), weights read once for all rows of a group of kRows: outs * ins *
// sizeof bytes for each group. The reference for the faster ones.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {
namespace {

constexpr int kRows = 4;
constexpr int kWarps = 4;

template <class T>
__device__ void dot(const LinearLaunch& a, int64_t out, int first, int count, float* sums) {
  const T* weight = static_cast<const T*>(a.weight) + out * a.ins;
  for (int r = 0; r < kRows; ++r) sums[r] = 0;
  for (int64_t i = threadIdx.x % 32; i < a.ins; i += 32) {
    const float w = to_float(weight[i]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < count) sums[r] += w * to_float(static_cast<const T*>(a.in)[(first + r) * a.ins + i]);
    }
  }
  for (int r = 0; r < kRows; ++r) sums[r] = warp_sum(sums[r]) + (a.bias ? a.bias[out] : 0);
}

template <class T>
__global__ void gemv_plain(LinearLaunch a) {
  const int64_t out = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const bool gated = a.epilogue == Epilogue::Gated;
  const int64_t outs = gated ? a.outs / 2 : a.outs;
  if (out >= outs) return;
  const int first = blockIdx.y * kRows;
  const int count = min(kRows, a.rows - first);
  float sums[kRows], ups[kRows];
  dot<T>(a, gated ? 2 * out : out, first, count, sums);
  if (gated) dot<T>(a, 2 * out + 1, first, count, ups);
  if (threadIdx.x % 32 != 0) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= count) return;
    const int64_t at = (first + r) * a.out_stride + out;
    switch (a.epilogue) {
      case Epilogue::Store:
        static_cast<T*>(a.out)[at] = from_float<T>(sums[r]);
        break;
      case Epilogue::AddTo:
        static_cast<float*>(a.out)[at] += sums[r];
        break;
      case Epilogue::Logits:
        static_cast<float*>(a.out)[at] = sums[r];
        break;
      case Epilogue::Gated:
        static_cast<T*>(a.out)[at] = from_float<T>(activate(sums[r], a.activation) * ups[r]);
        break;
    }
  }
}

}  // namespace

void launch_gemv_plain(const LinearLaunch& a, Stream stream) {
  const int64_t outs = a.epilogue == Epilogue::Gated ? a.outs / 2 : a.outs;
  const dim3 blocks(static_cast<unsigned>((outs + kWarps - 1) / kWarps),
                    static_cast<unsigned>((a.rows + kRows - 1) / kRows));
  dispatch(a.type, [&](auto type) {
    launch_kernel(gemv_plain<decltype(type)>, {blocks, kWarps * 32}, stream, a);
  });
}

}  // namespace skald::cuda
