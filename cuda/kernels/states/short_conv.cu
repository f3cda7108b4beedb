// short_conv and short_conv_keep. A thread has one column of one row. The floor is the bytes of a
// row, read once from memory: the rows before it, which the convolution reads too, are in a cache.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/states/short_conv.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256;

// before * x
template <class T>
__device__ float gated_input(const ShortConvLaunch& a, int row, int64_t col) {
  const T* in = static_cast<const T*>(a.in) + row * a.row_numbers + col;
  return to_float(__ldcg(in + a.columns.before)) * to_float(__ldcg(in + a.columns.x));
}

__device__ float* ring_of(const ShortConvLaunch& a, int sequence) {
  return a.states + a.step.slots[sequence] * a.slot_floats;
}

template <class T>
__global__ void __launch_bounds__(kThreads) short_conv(ShortConvLaunch a) {
  const int64_t col = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  const int row = static_cast<int>(blockIdx.x);
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (col >= a.cols) return;
  const int sequence = a.step.sequences[row], position = a.step.positions[row];
  const int first = a.one_row_each ? row : a.step.begins[sequence];
  float* const ring = ring_of(a, sequence);
  const float now = gated_input<T>(a, row, col);
  const float* weight = a.conv + col * a.taps;
  float sum = weight[a.taps - 1] * now;
  for (int back = 1; back < a.taps && back <= position; ++back) {
    const float older = row - back >= first ? gated_input<T>(a, row - back, col)
                                            : ring[(position - back) % a.taps * a.cols + col];
    sum = fmaf(weight[a.taps - 1 - back], older, sum);
  }
  if (a.one_row_each) ring[position % a.taps * a.cols + col] = now;
  const T after = __ldcg(static_cast<const T*>(a.in) + row * a.row_numbers + a.columns.after + col);
  static_cast<T*>(a.out)[row * a.cols + col] = from_float<T>(sum * to_float(after));
}

template <class T>
__global__ void __launch_bounds__(kThreads) short_conv_keep(ShortConvLaunch a) {
  const int64_t col = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  const int sequence = static_cast<int>(blockIdx.x);
  if (col >= a.cols) return;
  const int begin = a.step.begins[sequence], end = a.step.begins[sequence + 1];
  for (int row = max(begin, end - a.taps); row < end; ++row) {
    ring_of(a, sequence)[a.step.positions[row] % a.taps * a.cols + col] =
        gated_input<T>(a, row, col);
  }
}

dim3 blocks_for(int rows, int64_t cols) {
  return dim3(static_cast<unsigned>(rows), static_cast<unsigned>((cols + kThreads - 1) / kThreads));
}

}  // namespace

void launch_short_conv(const ShortConvLaunch& a, Stream stream) {
  const Grid grid = {blocks_for(a.rows, a.cols), kThreads, 0, a.dependent};
  dispatch(a.type, [&](auto type) { launch_kernel(short_conv<decltype(type)>, grid, stream, a); });
}

void launch_short_conv_keep(const ShortConvLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    launch_kernel(short_conv_keep<decltype(type)>, {blocks_for(a.sequences, a.cols), kThreads},
                  stream, a);
  });
}

}  // namespace skald::cuda
