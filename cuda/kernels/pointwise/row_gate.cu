// Multiplies each row by a factor: the gate of a shared expert. In decode there may be a single
// row, so several blocks share its columns. Each block computes the row's factor anew, from inputs
// in the L2 cache.
#include <algorithm>

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/pointwise/pointwise.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 8;  // columns of a thread

template <class T>
__global__ void __launch_bounds__(kThreads) row_gate(RowGateLaunch a) {
  __shared__ float shared[kThreads / 32];
  const T* in = static_cast<const T*>(a.in) + blockIdx.x * a.dim;
  T* x = static_cast<T*>(a.x) + blockIdx.x * a.cols;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  float sum = 0;
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) {
    sum += a.weight[i] * to_float(__ldcg(in + i));
  }
  const float factor = 1 / (1 + expf(-block_sum<kThreads>(sum, shared)));
  const int64_t first = int64_t{blockIdx.y} * kThreads * kEach + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int64_t i = first + k * kThreads;
    if (i < a.cols) x[i] = from_float<T>(to_float(__ldcg(x + i)) * factor);
  }
}

}  // namespace

void launch_row_gate(const RowGateLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    constexpr int64_t kCols = int64_t{kThreads} * kEach;
    const dim3 blocks(a.rows, static_cast<unsigned>((a.cols + kCols - 1) / kCols));
    launch_kernel(row_gate<decltype(type)>, {blocks, kThreads, 0, a.dependent}, stream, a);
  });
}

}  // namespace skald::cuda
