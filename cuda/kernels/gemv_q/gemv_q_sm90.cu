// out = W · in for one row and a quantized W, at the memory's speed: its records (tiles/), read
// once.
//
// As many blocks as multiprocessors, small enough for two on each: while a kernel runs, the next
// one's blocks are there already and fill their rings, all but a tile of these late where that
// would slow down what is needed earlier (LinearLaunch::heeds). A producer, one lane of a warp,
// fetches tiles of 16 weight rows x 1024 or 2048 columns, one bulk copy each, without waiting for
// the kernel ahead. Four warps bring the activations into shared memory as digits, a turn of
// columns after the other, and go. Four others multiply what is there on the tensor cores, 128
// columns of the 16 weight rows at a time; of a tile each has columns of its own. Codes are
// multiplied as bytes with the digits, exactly (digit_product.cuh), sums of 16 or 32 products by
// scales that are whole numbers too; others are applied in float32. A finisher warp adds up what
// they leave of 16 weight rows and writes results, while they are at the next. After its start a
// block meets nowhere. The order of every sum is fixed.
//
// A step of an 8B model has 129 such kernels, four a layer and the head, most of 4 to 18 us, one
// after the other. So what a block does once is to be little: no division, no barrier more than it
// needs, and code that others of the step have in the instruction cache already.
#include "cuda/kernels/built_for.h"
#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/gemv_q/gemv_q.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {
namespace {

template <class F, class T>
__global__ void __launch_bounds__(kGemvQThreads, kGemvQBlocks)
    gemv_q_sm90(__grid_constant__ const LinearLaunch a, __grid_constant__ const Layout layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ GemvQShared own;
  run_gemv_q<F, T>(a, layout, shared, own);
#endif
}

template <class F, class T>
void launch(const LinearLaunch& a, int multiprocessors, Stream stream) {
  const auto kernel = gemv_q_sm90<F, T>;
  SKALD_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBlockBytes));
  ask_for_all_shared(kernel);
  const Layout layout = layout_for<F>(a, multiprocessors);
  const auto bytes = static_cast<size_t>(layout.bytes);
  launch_kernel(kernel, {dim3(multiprocessors), kGemvQThreads, bytes, a.dependent}, stream, a,
                layout);
}

}  // namespace

bool supports_gemv_q_sm90(const LinearLaunch& a, int compute_capability) {
  if (!kHasSm90a || compute_capability != 90 || a.rows != 1) return false;
  if (a.type != DType::BF16 || (a.epilogue == Epilogue::Gated && a.outs % 2 != 0)) return false;
  bool fits = false;
  tiles::dispatch(a.format, [&](auto f) { fits = layout_for<decltype(f)>(a, 1).enough; });
  return fits;
}

void launch_gemv_q_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  check(a.ticket, "gemv_q_sm90 has a ticket");
  tiles::dispatch(a.format, [&](auto f) { launch<decltype(f), Bf16>(a, multiprocessors, stream); });
}

}  // namespace skald::cuda
