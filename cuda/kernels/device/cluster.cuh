// Blocks of a cluster (sm_90): how many, waiting for each other, using each other's shared
// memory. Below sm_90 each block is a cluster of its own.
#pragma once

#include <cstdint>

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

}  // namespace skald::cuda
