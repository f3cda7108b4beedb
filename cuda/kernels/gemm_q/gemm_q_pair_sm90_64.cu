// gemm_q_pair_sm90 for 64 activation rows: in a file of its own, so that sizes compile in parallel.
#include "cuda/kernels/gemm_q/gemm_q_pair.cuh"

namespace skald::cuda {

void launch_gemm_q_pair_64(const GemmQPair& pair, Stream stream) {
  launch_gemm_q_pair<64>(pair, stream);
}

}  // namespace skald::cuda
