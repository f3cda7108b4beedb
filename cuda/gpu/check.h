// The check for every CUDA call. Every kernel file parses this header, so it includes little.
#pragma once

#include <cuda_runtime_api.h>

namespace skald::cuda {

// Throws an Error that names the call. After a failed allocation no sticky error remains, so the
// process can continue.
[[noreturn]] void cuda_failed(cudaError_t status, const char* what);

inline void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) cuda_failed(status, what);
}

}  // namespace skald::cuda

#define SKALD_CUDA(call) ::skald::cuda::check_cuda((call), #call)
