// Acquires memory, streams, events, graphs and library handles. A lack of any of them is reported
// in one way, and tests can make each acquisition fail.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/gpu/faults.h"
#include "engine/base/error.h"

namespace skald::cuda {

template <class Create>
cudaError_t try_acquire(const Create& create) {
  return acquisition_fails() ? cudaErrorMemoryAllocation : create();
}

// Throws Error if create() does not return cudaSuccess.
template <class Create>
void acquire(const char* what, const Create& create) {
  const cudaError_t status = try_acquire(create);
  if (status == cudaSuccess) return;
  cudaGetLastError();
  fail(status == cudaErrorMemoryAllocation ? Exit::Memory : Exit::Failed, "no ", what,
       " on the GPU: ", cudaGetErrorString(status),
       "; leave it more memory with a smaller context (-c) or --vram, or use --device cpu");
}

}  // namespace skald::cuda
