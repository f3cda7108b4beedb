// Blocks of a cluster (sm_90): how many, waiting for each other, using each other's shared
// memory. Below sm_90 each block is a cluster of its own.
#pragma once

#include <cstdint>

#include "cuda/kernels/device/ptx.cuh"

namespace skald::cuda {

__device__ inline int cluster_blocks() {
#if __CUDA_ARCH__ >= 900
  uint32_t blocks;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
  return static_cast<int>(blocks);
#else
  return 1;
#endif
}

// After the wait, all threads of the cluster have arrived, and what they wrote before is visible.
__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#else
  __syncthreads();
#endif
}
// Says that what this thread reads of the others it has read: a release would wait for its writes.
__device__ inline void cluster_arrive_relaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#else
  __syncthreads();
#endif
}
__device__ inline void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// The same shared variable in block `rank` of the cluster.
template <class T>
__device__ inline T* of_block(T* shared, int rank) {
#if __CUDA_ARCH__ >= 900
  uint64_t there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
  return reinterpret_cast<T*>(there);
#else
  return shared;
#endif
}

// The same as an address for instructions that are told of the cluster (from sm_90 on).
__device__ inline uint32_t address_in(const void* shared, int rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there)
      : "r"(shared_address(shared)), "r"(rank));
  return there;
}

// A word from a register into block `rank`, to where it is here; that block's `barrier` counts its
// bytes. Below sm_90 nothing.
__device__ inline void send_word(uint64_t* here, uint64_t word, uint64_t* barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [%0], %1, [%2];" ::"r"(
                   address_in(here, rank)),
               "l"(word), "r"(address_in(barrier, rank))
               : "memory");
#endif
}

// And four floats, aligned to 16 bytes.
__device__ inline void send_four(float* here, const float4& four, uint64_t* barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(address_in(here, rank)),
      "f"(four.x), "f"(four.y), "f"(four.z), "f"(four.w), "r"(address_in(barrier, rank))
      : "memory");
#endif
}

// For whole warps: what this block's barrier expects has come.
__device__ inline void receive(uint64_t* barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "wait:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra wait;\n"
      "finished:\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
  __syncwarp();
#endif
}

}  // namespace skald::cuda
