// Two products of the same rows with matrices of different formats, in one launch. Each block works
// like a block of gemm_q_sm90, on a tile of one of the matrices. In a second launch, the other
// product would begin 4 us later.
#pragma once

#include <algorithm>

#include "cuda/kernels/gemm_q/gemm_q.cuh"
#include "cuda/kernels/tiles/pairs.h"

namespace skald::cuda {

template <class F, class G, int kRows>
__global__ void __launch_bounds__(kGemmQThreads, 1)
    gemm_q_pair_sm90(__grid_constant__ const LinearLaunch a, __grid_constant__ const GemmQPlan plan,
                     __grid_constant__ const LinearLaunch b,
                     __grid_constant__ const GemmQPlan b_plan) {
#if SKALD_HAS_WGMMA
  __shared__ GemmQShared<kRows> own;
  const int tile = static_cast<int>(blockIdx.z);
  if (tile < plan.tiles) {
    run_gemm_q<F>(a, plan, tile, own);
  } else {
    run_gemm_q<G>(b, b_plan, tile - plan.tiles, own);
  }
#endif
}

template <int kRows>
void launch_gemm_q_pair(const GemmQPair& pair, Stream stream) {
  const LinearLaunch &a = pair.a, &b = pair.b;
  const GemmQPlan &plan = pair.plan, &b_plan = pair.b_plan;
  tiles::dispatch_pair(a.format, b.format, [&]<class F, class G>(tiles::Pair<F, G>) {
    if constexpr (kOddColumns<F> == kOddColumns<G>) {
      const auto kernel = gemm_q_pair_sm90<F, G, kRows>;
      const int bytes = std::max(plan.bytes, b_plan.bytes);
      SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
      ask_for_all_shared(kernel);
      launch_kernel(kernel,
                    {dim3(plan.splits, plan.row_tiles, plan.tiles + b_plan.tiles),
                     (std::max(plan.warps, b_plan.warps) + kFetchWarps) * 32,
                     static_cast<size_t>(bytes), a.dependent, plan.splits},
                    stream, a, plan, b, b_plan);
    }
  });
}

}  // namespace skald::cuda
