// Gates a buffer in place, number by number: attention's result, for example. gated_part: the
// buffer is the gate, and what it gates is a part of wider rows.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/pointwise/pointwise.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads) gated_act(GatedActLaunch a) {
  using Numbers = Pack<T, kCount>;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= a.count / kCount) return;
  Numbers x = static_cast<Numbers*>(a.x)[at];
  const Numbers gate = static_cast<const Numbers*>(a.gate)[at];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float g = to_float(gate.x[i]), up = to_float(x.x[i]);
    const bool sigmoid = a.activation == Activation::Sigmoid;
    x.x[i] = from_float<T>(sigmoid ? up / (1 + expf(-g)) : gated(g, up, a.activation));
  }
  static_cast<Numbers*>(a.x)[at] = x;
}

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads) gated_part(GatedPartLaunch a) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kCount;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (at >= a.rows * a.cols) return;
  const float* up = a.up + at / a.cols * a.stride + at % a.cols;
  auto* x = reinterpret_cast<Pack<T, kCount>*>(static_cast<T*>(a.x) + at);
  const auto factors = *reinterpret_cast<const Pack<float, kCount>*>(up);
  Pack<T, kCount> some = *x;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    some.x[i] = from_float<T>(gated(to_float(some.x[i]), factors.x[i], a.activation));
  }
  *x = some;
}

}  // namespace

void launch_gated_part(const GatedPartLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    constexpr int kMost = 4;
    const bool aligned = reinterpret_cast<uintptr_t>(a.up) % (kMost * sizeof(float)) == 0;
    const bool many = a.cols % kMost == 0 && a.stride % kMost == 0 && aligned;
    const int64_t threads = a.rows * a.cols / (many ? kMost : 1);
    const dim3 blocks(static_cast<unsigned>((threads + kThreads - 1) / kThreads));
    launch_kernel(many ? gated_part<T, kMost> : gated_part<T, 1>,
                  {blocks, kThreads, 0, a.dependent}, stream, a);
  });
}

void launch_gated_act(const GatedActLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    constexpr int kMost = 4;
    const bool many = a.count % kMost == 0;
    const int64_t threads = a.count / (many ? kMost : 1);
    const dim3 blocks(static_cast<unsigned>((threads + kThreads - 1) / kThreads));
    launch_kernel(many ? gated_act<T, kMost> : gated_act<T, 1>, {blocks, kThreads, 0, a.dependent},
                  stream, a);
  });
}

}  // namespace skald::cuda
