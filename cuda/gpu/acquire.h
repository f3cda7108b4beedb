// Memory, streams, events, graphs and library handles are acquired through here, so that running
// out is told in one way, and tests can make it happen at any moment.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/gpu/faults.h"
#include "engine/base/error.h"

namespace skald::cuda {

template <class Create>
cudaError_t try_acquire(const Create& create) {
  return acquisition_fails() ? cudaErrorMemoryAllocation : create();
}

// Throws Error where create() does not return cudaSuccess.
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
