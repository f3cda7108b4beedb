// Two products of the same row with matrices of unlike formats, as one launch of
// gemv_q_sm90's blocks: each multiplies one of the matrices, and of the blocks each matrix has as
// many as let both end at about the same time.
#include <algorithm>

#include "cuda/kernels/built_for.h"
#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/gemv_q.cuh"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/tiles/pairs.h"

namespace skald::cuda {
namespace {

// With two, models of 8B and 1B in Q4_K_M are 1 and 4 % slower.
constexpr int kPairTeams = 1;

template <class F, class G, class T>
__global__ void __launch_bounds__(kGemvQThreads<kPairTeams>, kGemvQBlocks<kPairTeams>)
    gemv_q_pair(__grid_constant__ const LinearLaunch a, __grid_constant__ const Layout layout,
                __grid_constant__ const LinearLaunch b, __grid_constant__ const Layout b_layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ GemvQShared own;
  if (static_cast<int>(blockIdx.x) < layout.blocks) {
    run_gemv_q<F, T, kPairTeams>(a, layout, shared, own);
  } else {
    run_gemv_q<G, T, kPairTeams>(b, b_layout, shared, own);
  }
#endif
}

// Without tiles that are asked into the L2 cache: attention starts beside a pair's second half, and
// with them an 8B model in Q4_K_M is 0.7 % slower.
template <class F>
Layout pair_layout(const LinearLaunch& a, int blocks) {
  Layout layout = layout_for<F>(a, blocks, kPairTeams);
  layout.tiles_ahead = 0;
  return layout;
}
Layout pair_layout(const LinearLaunch& a, int blocks) {
  Layout layout;
  tiles::dispatch(a.format, [&](auto f) { layout = pair_layout<decltype(f)>(a, blocks); });
  return layout;
}

// The first's blocks, of so many, that let the two end soonest by the bytes of a block.
int first_blocks(const LinearLaunch& a, const LinearLaunch& b, int blocks) {
  const auto bytes = [](const Layout& layout, int among) {
    return int64_t{(layout.groups + among - 1) / among} * layout.records * layout.record_bytes;
  };
  const Layout first = pair_layout(a, 1), second = pair_layout(b, 1);
  int best = 1;
  int64_t least = INT64_MAX;
  for (int own = 1; own < blocks; ++own) {
    const int64_t longest = std::max(bytes(first, own), bytes(second, blocks - own));
    if (longest < least) best = own, least = longest;
  }
  return best;
}

template <class F, class G, class T>
void launch(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors, Stream stream) {
  const int own = first_blocks(a, b, multiprocessors);
  const Layout layout = pair_layout<F>(a, own);
  Layout b_layout = pair_layout<G>(b, multiprocessors - own);
  b_layout.first_block = own;
  const auto kernel = gemv_q_pair<F, G, T>;
  SKALD_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBlockBytes));
  ask_for_all_shared(kernel);
  const auto bytes = static_cast<size_t>(std::max(layout.bytes, b_layout.bytes));
  launch_kernel(kernel, {dim3(multiprocessors), kGemvQThreads<kPairTeams>, bytes, a.dependent},
                stream, a, layout, b, b_layout);
}

}  // namespace

bool supports_gemv_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b,
                               int compute_capability) {
  const bool known = tiles::dispatch_pair(a.format, b.format, [](auto) {}) ||
                     tiles::dispatch_pair(b.format, a.format, [](auto) {});
  const auto fits = [&](const LinearLaunch& launch) {
    return supports_gemv_q_sm90(launch, compute_capability) && pair_layout(launch, 1).enough;
  };
  return known && fits(a) && fits(b);
}

void launch_gemv_q_pair_sm90(const LinearLaunch& a, const LinearLaunch& b, int multiprocessors,
                             Stream stream) {
  check(a.ticket && b.ticket && a.rows == b.rows, "a pair has tickets, and the same rows");
  const auto run = [&](const LinearLaunch& first, const LinearLaunch& second) {
    return tiles::dispatch_pair(first.format, second.format,
                                [&]<class F, class G>(tiles::Pair<F, G>) {
                                  launch<F, G, Bf16>(first, second, multiprocessors, stream);
                                });
  };
  check(run(a, b) || run(b, a), "a pair of formats has a kernel");
}

}  // namespace skald::cuda
