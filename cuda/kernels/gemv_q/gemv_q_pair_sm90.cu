// Two products of the same activation row with matrices of different formats, in one launch. A
// block works like one of gemv_q_sm90's, on one of the matrices. The blocks are divided so that
// both products end at about the same time. In a model that mixes two formats the same kernel also
// runs single products, so that a step loads less code.
#include <algorithm>

#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/gemv_q/gemv_q.cuh"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/tiles/pairs.h"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

template <class F, class G, class T>
__global__ void __launch_bounds__(kGemvQThreads, kGemvQBlocks)
    gemv_q_pair(__grid_constant__ const LinearLaunch a, __grid_constant__ const Layout layout,
                __grid_constant__ const LinearLaunch b, __grid_constant__ const Layout b_layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ GemvQShared own;
  if (static_cast<int>(blockIdx.x) < layout.blocks) {
    run_gemv_q<F, T>(a, layout, shared, own);
  } else {
    run_gemv_q<G, T>(b, b_layout, shared, own);
  }
#endif
}

Layout layout_of(const LinearLaunch& a, int blocks) {
  Layout layout;
  tiles::dispatch(a.format, [&](auto f) { layout = layout_for<decltype(f)>(a, blocks); });
  return layout;
}

// The number of blocks for the first matrix, so that both products end soonest; judged by the bytes
// per block.
int first_blocks(const LinearLaunch& a, const LinearLaunch& b, int blocks) {
  const auto bytes = [](const Layout& layout, int among) {
    return int64_t{(layout.groups + among - 1) / among} * layout.records * layout.record_bytes;
  };
  const Layout first = layout_of(a, 1), second = layout_of(b, 1);
  int best = 1;
  int64_t least = INT64_MAX;
  for (int own = 1; own < blocks; ++own) {
    const int64_t longest = std::max(bytes(first, own), bytes(second, blocks - own));
    if (longest < least) best = own, least = longest;
  }
  return best;
}

// One of the two products may have no blocks.
template <class F, class G, class T>
void launch(const LinearLaunch& a, const Layout& layout, const LinearLaunch& b,
            const Layout& b_layout, Stream stream) {
  const auto kernel = gemv_q_pair<F, G, T>;
  SKALD_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBlockBytes));
  ask_for_all_shared(kernel);
  const auto bytes = static_cast<size_t>(std::max(layout.bytes, b_layout.bytes));
  launch_kernel(kernel, {dim3(layout.blocks + b_layout.blocks), kGemvQThreads, bytes, a.dependent},
                stream, a, layout, b, b_layout);
}

template <class F, class G, class T>
void launch_pair(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors, Stream stream) {
  const int own = first_blocks(a, b, multiprocessors);
  Layout b_layout = layout_for<G>(b, multiprocessors - own);
  b_layout.first_block = own;
  launch<F, G, T>(a, layout_for<F>(a, own), b, b_layout, stream);
}

}  // namespace

void launch_gemv_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors,
                             Stream stream) {
  check(a.gemv.ticket && b.gemv.ticket && a.rows == b.rows,
        "a pair has tickets, and the same rows");
  const auto run = [&](const LinearLaunch& first, const LinearLaunch& second) {
    return tiles::dispatch_pair(first.format, second.format,
                                [&]<class F, class G>(tiles::Pair<F, G>) {
                                  launch_pair<F, G, Bf16>(first, second, multiprocessors, stream);
                                });
  };
  check(run(a, b) || run(b, a), "a pair of formats has a kernel");
}

void launch_gemv_q_of_pair_sm90(const LinearLaunch& a, DType other, int multiprocessors,
                                Stream stream) {
  check(a.gemv.ticket, "gemv_q_sm90 has a ticket");
  const Layout layout = layout_of(a, multiprocessors), none = {};
  const auto run = [&](DType first, DType second) {
    return tiles::dispatch_pair(first, second, [&]<class F, class G>(tiles::Pair<F, G>) {
      const bool is_first = first == a.format;
      launch<F, G, Bf16>(a, is_first ? layout : none, a, is_first ? none : layout, stream);
    });
  };
  check(run(a.format, other) || run(other, a.format), "a pair of formats has a kernel");
}

}  // namespace skald::cuda
