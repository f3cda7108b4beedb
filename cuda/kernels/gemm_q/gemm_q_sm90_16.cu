#include "cuda/kernels/gemm_q/gemm_q.cuh"

namespace skald::cuda {

void launch_gemm_q_16(const LinearLaunch& a, const GemmQPlan& plan, Stream stream) {
  launch_gemm_q<16>(a, plan, stream);
}

}  // namespace skald::cuda
