#include "cuda/gpu/host_memory.h"

#include <sys/mman.h>

#include "cuda/gpu/acquire.h"
#include "engine/base/size_text.h"

namespace skald::cuda {
namespace {

constexpr int64_t kHugePage = 2 << 20;

int64_t whole_pages(int64_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

}  // namespace

// Large pages make locking several times faster than cudaMallocHost(), which locks small ones.
HostMemory::HostMemory(int64_t bytes, Lock lock) {
  if (bytes == 0) return;
  const auto size = static_cast<size_t>(whole_pages(bytes));
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    fail(Exit::Memory, "no memory for weights that the GPU has no room for: ", size_text(bytes),
         " asked; use a smaller model or type");
  }
  madvise(data, size, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
  if (lock == Lock::Never) return;
  const cudaError_t status =
      try_acquire([&] { return cudaHostRegister(data, size, cudaHostRegisterDefault); });
  if (status != cudaSuccess) cudaGetLastError();
  if (status != cudaSuccess && lock == Lock::Must) {
    munmap(data, size);
    fail(Exit::Memory,
         "no page-locked memory for weights that the GPU has no room for: ", size_text(bytes),
         " asked (", cudaGetErrorString(status),
         "); end other programs, give --host-memory pageable, or use a smaller model or type");
  }
  locked_ = status == cudaSuccess;
}

HostMemory::~HostMemory() {
  if (!data_) return;
  if (locked_) cudaHostUnregister(data_);
  munmap(data_, static_cast<size_t>(whole_pages(bytes_)));
}

}  // namespace skald::cuda
