// gemm_q_sm90 for 128 activation rows: in a file of its own, so that sizes compile in parallel.
#include "cuda/kernels/gemm_q/gemm_q.cuh"

namespace skald::cuda {

void launch_gemm_q_128(const LinearLaunch& a, const GemmQPlan& plan, Stream stream) {
  launch_gemm_q<128>(a, plan, stream);
}

}  // namespace skald::cuda
