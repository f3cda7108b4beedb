// Kernel launches, with or without programmatic dependent launch. The blocks of a dependent kernel
// start while the kernel ahead still runs; they wait for its results in wait_for_kernel_ahead().
#pragma once

#include "cuda/gpu/check.h"
#include "cuda/gpu/stream.h"
#include "cuda/kernels/device/delay.cuh"

namespace skald::cuda {

// Waits until the kernel ahead has ended and its writes are visible.
__device__ inline void wait_for_kernel_ahead() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  random_delay();
}

// The next dependent kernel may start once every block of this one has called this or has ended.
__device__ inline void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  random_delay();
}

struct Grid {
  dim3 blocks;
  int threads;
  size_t shared_bytes = 0;
  bool dependent = false;
  int cluster = 1;  // blocks, of adjacent x
};

template <class... Params, class... Args>
void launch_kernel(void (*kernel)(Params...), const Grid& grid, Stream stream, Args... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = dim3(grid.threads);
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  config.attrs = attributes;
  if (grid.dependent) {
    cudaLaunchAttribute& dependence = attributes[config.numAttrs++];
    dependence.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    dependence.val.programmaticStreamSerializationAllowed = 1;
  }
  if (grid.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(grid.cluster);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  }
  SKALD_CUDA(cudaLaunchKernelEx(&config, kernel, Params(args)...));
}

}  // namespace skald::cuda
