// Copies of cache pages and recurrent states: on the GPU, where a sequence stops sharing, and
// between the GPU and the host's memory. All are enqueued on the executor's stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cuda/gpu/stream.h"
#include "engine/step/backend.h"

namespace skald::cuda {

class PageCopies {
 public:
  // The addresses of pages and states on the GPU, and the bytes of one of each.
  struct Cache {
    std::byte* pages;
    int64_t page_bytes;
    std::byte* states;
    int64_t state_bytes;
  };
  PageCopies(const Cache& cache, Stream stream) : cache_(cache), stream_(stream) {}

  void enqueue(const Sequence::Copies& copies) const;

  // Executor::read_cache() and write_cache(): wait once, after all copies.
  void read(std::span<const CacheRead> parts) const;
  void write(std::span<const CacheWrite> parts) const;

 private:
  std::byte* at(CacheKind kind, int32_t number) const;
  void enqueue(CacheKind kind, int64_t bytes, const Sequence::Copy& copy) const;

  Cache cache_;
  Stream stream_;
};

// Executor::host_memory(): page-locked, unless the machine locks no more memory.
std::shared_ptr<std::byte> memory_for_copies(int64_t bytes);

}  // namespace skald::cuda
