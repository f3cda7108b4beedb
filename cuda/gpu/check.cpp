#include "cuda/gpu/check.h"

#include "engine/base/error.h"

namespace skald::cuda {

void cuda_failed(cudaError_t status, const char* what) {
  cudaGetLastError();
  const bool memory = status == cudaErrorMemoryAllocation;
  fail(memory ? Exit::Memory : Exit::Failed, "CUDA: ", what, ": ", cudaGetErrorString(status));
}

}  // namespace skald::cuda
