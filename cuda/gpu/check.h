// Every CUDA and cuBLAS call goes through one of these. A failed allocation leaves no sticky error
// behind, so that the process can go on. cuBLAS loads kernels as it needs them, and where there is
// no memory for that says no more than that something is wrong inside.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>

#include "engine/base/error.h"

namespace skald::cuda {

inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  const bool memory = status == cudaErrorMemoryAllocation;
  fail(memory ? Exit::Memory : Exit::Failed, "CUDA: ", what, ": ", cudaGetErrorString(status));
}

// Of the current device. After an error that stays it cannot be told, and is not what is wrong.
inline int64_t free_memory() {
  size_t free = 0, total = 0;
  const bool told = cudaMemGetInfo(&free, &total) == cudaSuccess;
  return told ? static_cast<int64_t>(free) : std::numeric_limits<int64_t>::max();
}

inline void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  constexpr int64_t kEnough = 256 << 20;  // for cuBLAS; a plan leaves more to it and CUDA
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED || free_memory() < kEnough;
  fail(memory ? Exit::Memory : Exit::Failed, "cuBLAS: ", what, ": ",
       cublasLtGetStatusString(status), memory ? "; the GPU's memory is full" : "");
}

}  // namespace skald::cuda

#define SKALD_CUDA(call) ::skald::cuda::check_cuda((call), #call)
#define SKALD_CUBLAS(call) ::skald::cuda::check_cublas((call), #call)
