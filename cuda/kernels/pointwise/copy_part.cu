// Copies columns of each head of each row: the numbers that a step is given, and parts of other
// rows.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/pointwise/pointwise.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256;

// kCount: numbers in one access; divides cols, widths and strides.
template <class In, class Out, int kCount>
__global__ void __launch_bounds__(kThreads) copy_part(CopyPartLaunch a) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kCount;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (at >= a.rows * a.heads * a.cols) return;
  const int64_t col = at % a.cols, head = at / a.cols % a.heads, row = at / a.cols / a.heads;
  const auto place = [&](const CopyPartLaunch::Place& p) {
    return row * p.stride + head * p.width + col;
  };
  const auto in =
      *reinterpret_cast<const Pack<In, kCount>*>(static_cast<const In*>(a.in) + place(a.from));
  Pack<Out, kCount> out;
#pragma unroll
  for (int i = 0; i < kCount; ++i) out.x[i] = from_float<Out>(to_float(in.x[i]));
  *reinterpret_cast<Pack<Out, kCount>*>(static_cast<Out*>(a.out) + place(a.to)) = out;
}

template <class In, class Out>
void launch(const CopyPartLaunch& a, Stream stream) {
  constexpr int kMost = 4;
  const auto divides = [](const CopyPartLaunch::Place& place) {
    return place.width % kMost == 0 && place.stride % kMost == 0;
  };
  const auto aligned = [&](const void* data, size_t element) {
    return reinterpret_cast<uintptr_t>(data) % (kMost * element) == 0;
  };
  const bool many = a.cols % kMost == 0 && divides(a.from) && divides(a.to) &&
                    aligned(a.in, sizeof(In)) && aligned(a.out, sizeof(Out));
  const int64_t threads = a.rows * a.heads * a.cols / (many ? kMost : 1);
  const dim3 blocks(static_cast<unsigned>((threads + kThreads - 1) / kThreads));
  launch_kernel(many ? copy_part<In, Out, kMost> : copy_part<In, Out, 1>,
                {blocks, kThreads, 0, a.dependent}, stream, a);
}

}  // namespace

void launch_copy_part(const CopyPartLaunch& a, Stream stream) {
  dispatch(a.out_type, [&](auto out) {
    using Out = decltype(out);
    if (a.in_type == DType::F32) return launch<float, Out>(a, stream);
    check(a.in_type == a.out_type, "a part keeps its type or is rounded");
    launch<Out, Out>(a, stream);
  });
}

}  // namespace skald::cuda
