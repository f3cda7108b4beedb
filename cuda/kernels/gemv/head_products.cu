#include "cuda/kernels/gemv/head_products.h"

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"

namespace skald::cuda {
namespace {

constexpr int kFewRows = 8, kFewWarps = 4;
constexpr int kTile = 64;                 // rows, and numbers of a row, of a block
constexpr int kDepth = 16;                // columns of the weights at a time
constexpr int kThreads = 256, kEach = 4;  // a thread has kEach rows of kEach numbers

template <class T>
__device__ const T* row_of(const HeadProductsLaunch& a, int64_t row, int64_t head) {
  return static_cast<const T*>(a.in) + row * a.from.stride + head * a.from.width;
}
template <class T>
__device__ T* result_of(const HeadProductsLaunch& a, int64_t row, int64_t head) {
  return static_cast<T*>(a.out) + row * a.to.stride + head * a.to.width;
}

// kCount: numbers in one access; divides ins, and the places of the rows.
template <class T, int kCount>
__global__ void __launch_bounds__(kFewWarps * 32) head_products_few(HeadProductsLaunch a) {
  using Some = Pack<T, kCount>;
  const int lane = threadIdx.x % 32;
  const int64_t out = int64_t{blockIdx.x} * kFewWarps + threadIdx.x / 32, head = blockIdx.y;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (out >= a.outs) return;
  const auto* weight = static_cast<const T*>(a.weight) + (head * a.outs + out) * a.ins;
  float sums[kFewRows] = {};
  for (int64_t i = lane * kCount; i < a.ins; i += 32 * kCount) {
    const Some w = *reinterpret_cast<const Some*>(weight + i);
#pragma unroll
    for (int row = 0; row < kFewRows; ++row) {
      if (row >= a.rows) break;
      const Some x = *reinterpret_cast<const Some*>(row_of<T>(a, row, head) + i);
#pragma unroll
      for (int j = 0; j < kCount; ++j) sums[row] += to_float(w.x[j]) * to_float(x.x[j]);
    }
  }
#pragma unroll
  for (int row = 0; row < kFewRows; ++row) {
    if (row >= a.rows) break;
    const float sum = warp_sum(sums[row]);
    if (lane == 0) result_of<T>(a, row, head)[out] = from_float<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) head_products(HeadProductsLaunch a) {
  __shared__ float weights[kDepth][kTile + 1], rows[kDepth][kTile + 1];
  const int64_t first_out = int64_t{blockIdx.x} * kTile, head = blockIdx.y;
  const int64_t first_row = int64_t{blockIdx.z} * kTile;
  const int out_at = threadIdx.x % (kTile / kEach), row_at = threadIdx.x / (kTile / kEach);
  let_next_kernel_start();
  wait_for_kernel_ahead();
  float sums[kEach][kEach] = {};
  for (int64_t begin = 0; begin < a.ins; begin += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
      const int at = i / kDepth, col = i % kDepth;
      const bool inside = begin + col < a.ins;
      const int64_t out = first_out + at, row = first_row + at;
      const auto* weight = static_cast<const T*>(a.weight) + (head * a.outs + out) * a.ins;
      weights[col][at] = inside && out < a.outs ? to_float(weight[begin + col]) : 0;
      rows[col][at] = inside && row < a.rows ? to_float(row_of<T>(a, row, head)[begin + col]) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int col = 0; col < kDepth; ++col) {
      float w[kEach], x[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        w[i] = weights[col][out_at + i * (kTile / kEach)];
        x[i] = rows[col][row_at + i * (kTile / kEach)];
      }
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
#pragma unroll
        for (int o = 0; o < kEach; ++o) sums[r][o] += x[r] * w[o];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
    const int64_t row = first_row + row_at + r * (kTile / kEach);
#pragma unroll
    for (int o = 0; o < kEach; ++o) {
      const int64_t out = first_out + out_at + o * (kTile / kEach);
      if (row < a.rows && out < a.outs) result_of<T>(a, row, head)[out] = from_float<T>(sums[r][o]);
    }
  }
}

unsigned parts(int64_t count, int64_t part) {
  return static_cast<unsigned>((count + part - 1) / part);
}

}  // namespace

void launch_head_products(const HeadProductsLaunch& a, Stream stream) {
  const auto heads = static_cast<unsigned>(a.heads);
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    if (a.rows > kFewRows) {
      const dim3 blocks(parts(a.outs, kTile), heads, parts(a.rows, kTile));
      return launch_kernel(head_products<T>, {blocks, kThreads, 0, a.dependent}, stream, a);
    }
    constexpr int kMost = 4;
    const bool many = a.ins % kMost == 0 && a.from.width % kMost == 0 &&
                      a.from.stride % kMost == 0 &&
                      reinterpret_cast<uintptr_t>(a.in) % (kMost * sizeof(T)) == 0;
    launch_kernel(many ? head_products_few<T, kMost> : head_products_few<T, 1>,
                  {dim3(parts(a.outs, kFewWarps), heads), kFewWarps * 32, 0, a.dependent}, stream,
                  a);
  });
}

}  // namespace skald::cuda
