#include "cuda/gpu/memory.h"

#include "cuda/gpu/acquire.h"
#include "engine/base/size_text.h"

namespace skald::cuda {

template <Place kPlace>
Memory<kPlace>::Memory(int64_t bytes, const char* purpose) {
  if (bytes == 0) return;
  const size_t size = static_cast<size_t>(bytes);
  const cudaError_t status = try_acquire([&] {
    return kPlace == Place::Device ? cudaMalloc(&data_, size) : cudaMallocHost(&data_, size);
  });
  if (status != cudaSuccess) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    fail(Exit::Memory, "no ", kPlace == Place::Device ? "memory" : "page-locked memory", " for ",
         purpose, ": ", size_text(bytes), " asked, ", size_text(static_cast<int64_t>(free)), " of ",
         size_text(static_cast<int64_t>(total)), " free on the GPU (", cudaGetErrorString(status),
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
