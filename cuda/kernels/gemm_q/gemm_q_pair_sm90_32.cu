// gemm_q_pair_sm90 for 32 activation rows: in a file of its own, so that sizes compile in parallel.
#include "cuda/kernels/gemm_q/gemm_q_pair.cuh"

namespace skald::cuda {

void launch_gemm_q_pair_32(const GemmQPair& pair, Stream stream) {
  launch_gemm_q_pair<32>(pair, stream);
}

}  // namespace skald::cuda
