// The check for every cuBLAS call. cuBLAS loads kernels when it first needs them; if memory for a
// kernel is missing, it reports only an internal error.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>

#include "engine/base/error.h"

namespace skald::cuda {

// Free memory of the current device. After a sticky error the query fails; then memory is not what
// is missing.
inline int64_t free_memory() {
  size_t free = 0, total = 0;
  const bool succeeded = cudaMemGetInfo(&free, &total) == cudaSuccess;
  return succeeded ? static_cast<int64_t>(free) : std::numeric_limits<int64_t>::max();
}

inline void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  constexpr int64_t kEnough = 256 << 20;  // for cuBLAS; a memory plan leaves more than that
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED || free_memory() < kEnough;
  fail(memory ? Exit::Memory : Exit::Failed, "cuBLAS: ", what, ": ",
       cublasLtGetStatusString(status), memory ? "; the GPU's memory is full" : "");
}

}  // namespace skald::cuda

#define SKALD_CUBLAS(call) ::skald::cuda::check_cublas((call), #call)
