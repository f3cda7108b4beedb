#include "cuda/run/page_copies.h"

#include <cstring>

#include "cuda/gpu/check.h"
#include "cuda/gpu/host_memory.h"

namespace skald::cuda {

std::byte* PageCopies::at(CacheKind kind, int32_t number) const {
  return kind == CacheKind::Page ? cache_.pages + number * cache_.page_bytes
                                 : cache_.states + number * cache_.state_bytes;
}

void PageCopies::enqueue(const Sequence::Copies& copies) const {
  if (copies.page) enqueue(CacheKind::Page, cache_.page_bytes, *copies.page);
  if (copies.state) enqueue(CacheKind::State, cache_.state_bytes, *copies.state);
}

void PageCopies::enqueue(CacheKind kind, int64_t bytes, const Sequence::Copy& copy) const {
  SKALD_CUDA(cudaMemcpyAsync(at(kind, copy.to), at(kind, copy.from), static_cast<size_t>(bytes),
                             cudaMemcpyDeviceToDevice, stream_));
}

void PageCopies::read(std::span<const CacheRead> parts) const {
  for (const CacheRead& part : parts) {
    SKALD_CUDA(cudaMemcpyAsync(part.bytes.data(), at(part.kind, part.number), part.bytes.size(),
                               cudaMemcpyDeviceToHost, stream_));
  }
  SKALD_CUDA(cudaStreamSynchronize(stream_));
}

void PageCopies::write(std::span<const CacheWrite> parts) const {
  for (const CacheWrite& part : parts) {
    SKALD_CUDA(cudaMemcpyAsync(at(part.kind, part.number), part.bytes.data(), part.bytes.size(),
                               cudaMemcpyHostToDevice, stream_));
  }
  SKALD_CUDA(cudaStreamSynchronize(stream_));  // the caller may free the bytes
}

std::shared_ptr<std::byte> memory_for_copies(int64_t bytes) {
  const auto memory = std::make_shared<HostMemory>(bytes, HostMemory::Lock::Try);
  // The system provides memory that is not locked when it is first written.
  if (!memory->locked()) std::memset(memory->data(), 0, static_cast<size_t>(bytes));
  return {memory, memory->data()};
}

}  // namespace skald::cuda
