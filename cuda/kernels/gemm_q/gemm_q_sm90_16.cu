// gemm_q_sm90 for 16 activation rows: in a file of its own, so that sizes compile in parallel.
#include "cuda/kernels/gemm_q/gemm_q.cuh"

namespace skald::cuda {

void launch_gemm_q_16(const LinearLaunch& a, const GemmQPlan& plan, Stream stream) {
  launch_gemm_q<16>(a, plan, stream);
}

}  // namespace skald::cuda
