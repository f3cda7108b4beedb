// out = W · in for one row and a quantized W. The floor is the memory's speed: the records of W
// (tiles/), read once.
//
// There are as many blocks as multiprocessors, and two fit on each. While a kernel runs, the next
// kernel's blocks start beside it and fill their rings. If that would take bandwidth from a kernel
// whose weights are needed earlier, they fetch one tile and fill the rest of the ring late
// (GemvQPart::wait).
//
// The warps of a block:
// - A producer, one lane of a warp, fetches tiles of 16 weight rows x 1024 or 2048 columns, one
//   bulk copy each. It does not wait for the kernel ahead.
// - Four stagers write the activations to shared memory as digits, one turn of columns after the
//   other, and exit.
// - Four consumers multiply on the tensor cores, 128 columns of the 16 weight rows at a time; each
//   has its own columns of a tile. They multiply codes, as bytes, by digits, exactly
//   (digit_product.cuh). Then they multiply sums of 16 or 32 products by the blocks' scales, as
//   integers if the scales are integers, otherwise in float32.
// - A finisher adds up the consumers' partial sums of 16 weight rows and writes results, while the
//   consumers work on the next rows.
//
// After its start a block has no barrier for all of its threads. The order of every sum is fixed.
//
// A step of an 8B model has 129 such kernels, four a layer and the head. Most take 4 to 18 us, one
// after the other. So a block must keep its fixed work short: no division, no unneeded barrier, and
// code that other kernels of the step have left in the instruction cache.
#include "cuda/kernels/gemv_q/gemv_q.cuh"
#include "cuda/kernels/linear.h"
#include "engine/base/check.h"

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

}  // namespace

void launch_gemv_q_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  check(a.gemv.ticket && !a.experts.used, "gemv_q_sm90 has a ticket, and no experts");
  tiles::dispatch(a.format, [&](auto f) {
    using F = decltype(f);
    launch_blocks(gemv_q_sm90<F, Bf16>, a, layout_for<F>(a, multiprocessors), stream);
  });
}

template <>
void launch_product<kernel_id("gemv_q_sm90")>(const ProductCall& call) {
  const LinearLaunch& first = call.pieces.front();
  if (call.pieces.size() == 2) {
    launch_gemv_q_pair_sm90(first, call.pieces[1], call.multiprocessors, call.stream);
  } else if (call.partner) {
    launch_gemv_q_of_pair_sm90(first, *call.partner, call.multiprocessors, call.stream);
  } else {
    launch_gemv_q_sm90(first, call.multiprocessors, call.stream);
  }
}

}  // namespace skald::cuda
