// gemv_q_sm90 for a matrix that is put together from those of one row's chosen experts
// (ChosenShape). The floor is the bytes of the chosen experts' records, read once.
//
// Below one another (gate and up), a group of 16 weight rows lies in one expert's matrix. Beside
// one another (down), a group has each expert's records, one expert after the other; the
// activations of an expert are multiplied by the expert's weight, so that the product's sum is the
// sum of the experts. Gate and up may also route the row (row_router.cuh). Then an expert that
// every row has may stand behind the chosen ones. All else is as in gemv_q_sm90.
#include "cuda/kernels/gemv_q/gemv_q.cuh"
#include "cuda/kernels/linear.h"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

template <class F, class T>
__global__ void __launch_bounds__(kGemvQThreads, kGemvQBlocks)
    gemv_q_experts_sm90(__grid_constant__ const LinearLaunch a,
                        __grid_constant__ const Layout layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ GemvQExpertsShared own;
  run_gemv_q<F, T, true>(a, layout, shared, own);
#endif
}

}  // namespace

void launch_gemv_q_experts_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  check(a.gemv.ticket && a.experts.used > 0 && a.experts.used <= kMostChosen,
        "gemv_q_experts_sm90 has a ticket, and experts");
  check(!a.chosen.shared || (a.router.logits && !a.bias),
        "gate and up route a row that has a shared expert, and no biases");
  if (const RouterPart& r = a.router; r.weight) {
    const int logits = r.spec.count + (r.shared_gate ? 1 : 0);
    check(r.spec.count <= kMostRouted && logits <= kMostRoutedByBlock * multiprocessors &&
              a.ins % 4 == 0,
          "the blocks have room for all logits");
    check(r.logits && r.chosen && r.weights && a.norm_weight && !a.experts.beside,
          "gate and up route a row that they norm");
  }
  tiles::dispatch(a.format, [&](auto f) {
    using F = decltype(f);
    launch_blocks(gemv_q_experts_sm90<F, Bf16>, a, layout_for<F>(a, multiprocessors), stream);
  });
}

}  // namespace skald::cuda
