// gemm_q_sm90 for 64 activation rows: in a file of its own, so that sizes compile in parallel.
#include "cuda/kernels/gemm_q/gemm_q.cuh"

namespace skald::cuda {

void launch_gemm_q_64(const LinearLaunch& a, const GemmQPlan& plan, Stream stream) {
  launch_gemm_q<64>(a, plan, stream);
}

}  // namespace skald::cuda
