// Memory of the host for weights, or for the cache of preempted texts, that a GPU has no room for.
// It is page-locked, so that the GPU copies from it at the link's full speed and kernels can read
// it in place. Where the machine locks no more memory, it is ordinary memory: the GPU then copies
// from it at a fraction of that speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace skald::cuda {

class HostMemory {
 public:
  HostMemory() = default;
  // Must: kernels will read the memory, or the user wants it locked. Throws Error(Exit::Memory) if
  // there is no memory, or none that can be locked though it must.
  enum class Lock : uint8_t { Never, Try, Must };
  HostMemory(int64_t bytes, Lock lock);
  HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(locked_, other.locked_);
    return *this;
  }
  ~HostMemory();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  bool locked() const { return locked_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  bool locked_ = false;
};

}  // namespace skald::cuda
