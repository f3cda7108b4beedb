// Where two blocks, a cluster, have half of the columns each of the same groups of weight rows:
// what the second sends the first, straight into its shared memory.
#pragma once

#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/tiles/layout.h"

namespace skald::cuda {

struct HalfSums {
  static constexpr int kMost = 8;  // groups
  uint64_t ready[kMost];
  float sums[kMost][tiles::kRows];

  // For one thread of each group, before the cluster meets.
  __device__ void expect(int group) {
    barrier_init(&ready[group], 1);
    barrier_init_fence();
    barrier_expect_bytes(&ready[group], sizeof(sums[group]));
  }
  // For as many lanes as there are rows, after it.
  __device__ void send(int group, int row, float sum) const {
#if __CUDA_ARCH__ >= 900
    uint32_t to, barrier;
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(to) : "r"(shared_address(&sums[group][row])));
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(barrier) : "r"(shared_address(&ready[group])));
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
        "f"(sum), "r"(barrier)
        : "memory");
#endif
  }
  // For a whole warp.
  __device__ float receive(int group, int row) const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "wait:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n"
        "@done bra finished;\n"
        "bra wait;\n"
        "finished:\n"
        "}" ::"r"(shared_address(&ready[group]))
        : "memory");
    __syncwarp();
#endif
    return sums[group][row];
  }
};

}  // namespace skald::cuda
