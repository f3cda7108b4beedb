// Thread block clusters (sm_90): their size, their barrier, and access to the shared memory of
// another block. Below sm_90 each block is a cluster of its own.
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

// The cluster's barrier. After cluster_wait() all threads of the cluster have arrived, and their
// writes before cluster_arrive() are visible.
__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#else
  __syncthreads();
#endif
}
// The arrival of a thread that has only read from other blocks. cluster_arrive() would wait for the
// thread's own writes.
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

// The address of the same shared variable in block `rank` of the cluster.
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

// The same as a 32-bit address for PTX instructions on the cluster's shared memory (sm_90).
__device__ inline uint32_t address_in(const void* shared, int rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(there)
      : "r"(shared_address(shared)), "r"(rank));
  return there;
}

// Arrives at a barrier of block `rank`. Does nothing below sm_90.
__device__ inline void barrier_arrive_in(uint64_t* barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  random_delay();
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_in(barrier, rank))
               : "memory");
#endif
}

// bulk_copy() to the same place in the blocks of the cluster that `blocks` has a bit for. In each
// of them its own barrier counts the bytes. Does nothing below sm_90.
__device__ inline void bulk_copy_to(unsigned blocks, void* shared, const void* global,
                                    uint32_t bytes, uint64_t* barrier, uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1], %2, [%3], %4, %5;" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "h"(static_cast<uint16_t>(blocks)),
      "l"(policy)
      : "memory");
#endif
}

// Stores a word from a register to the place of `here` in block `rank`. That block's `barrier`
// counts the bytes. Does nothing below sm_90.
__device__ inline void send_word(uint64_t* here, uint64_t word, uint64_t* barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [%0], %1, [%2];" ::"r"(
                   address_in(here, rank)),
               "l"(word), "r"(address_in(barrier, rank))
               : "memory");
#endif
}

// The same for four floats. The address is a multiple of 16 bytes.
__device__ inline void send_four(float* here, const float4& four, uint64_t* barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(address_in(here, rank)),
      "f"(four.x), "f"(four.y), "f"(four.z), "f"(four.w), "r"(address_in(barrier, rank))
      : "memory");
#endif
}

// Waits, as a whole warp, until the bytes that this block's barrier expects have arrived.
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
