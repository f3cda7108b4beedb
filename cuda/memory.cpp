#include "cuda/memory.h"

#include "cuda/check.h"

namespace skald::cuda {

template <Place kPlace>
Memory<kPlace>::Memory(int64_t bytes, const char* purpose) {
  if (bytes == 0) return;
  const size_t size = static_cast<size_t>(bytes);
  const cudaError_t status =
      kPlace == Place::Device ? cudaMalloc(&data_, size) : cudaMallocHost(&data_, size);
  if (status != cudaSuccess) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    fail(Exit::Memory, "no memory for ", purpose, ": ", bytes >> 20, " MiB asked, ", free >> 20,
         " of ", total >> 20, " MiB free on the GPU (", cudaGetErrorString(status),
         "); try a smaller context (-c) or --device cpu");
  }
  bytes_ = bytes;
}

template <Place kPlace>
Memory<kPlace>::~Memory() {
  if (!data_) return;
  kPlace == Place::Device ? cudaFree(data_) : cudaFreeHost(data_);
}

template class Memory<Place::Device>;
template class Memory<Place::PinnedHost>;

}  // namespace skald::cuda
