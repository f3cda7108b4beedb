// Launching with or without programmatic dependence: a dependent kernel's blocks start while the
// kernel ahead still runs, and wait for its results at wait_for_kernel_ahead().
#pragma once

#include "cuda/gpu/check.h"
#include "cuda/kernels/device/delay.cuh"
#include "cuda/kernels/launch.h"

namespace skald::cuda {

__device__ inline void wait_for_kernel_ahead() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  random_delay();
}

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
