// Memory beside pages that nobody may touch: a kernel that reads or writes one byte too far ends
// the test with SIGSEGV. AddressSanitizer does not see this in SIMD code, which is compiled without
// it, nor in memory from mmap().
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "tests/catch.h"

namespace skald::test {

// Which end of the bytes meets the page. Data of odd sizes can meet it at one end alone.
enum class Fence : uint8_t { Before, Behind };

class FencedBytes {
 public:
  FencedBytes(std::span<const std::byte> bytes, Fence fence) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (bytes.size() + page - 1) / page * page;
    size_ = inner + 2 * page;
    void* all = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(all != MAP_FAILED);
    all_ = static_cast<std::byte*>(all);
    REQUIRE((inner == 0 || mprotect(all_ + page, inner, PROT_READ | PROT_WRITE) == 0));
    data_ = all_ + page + (fence == Fence::Behind ? inner - bytes.size() : 0);
    if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
  }
  FencedBytes(const FencedBytes&) = delete;
  FencedBytes& operator=(const FencedBytes&) = delete;
  ~FencedBytes() { munmap(all_, size_); }

  std::byte* data() const { return data_; }

 private:
  std::byte* all_;
  size_t size_;
  std::byte* data_;
};

// Keeps all operands of one call.
class Fenced {
 public:
  explicit Fenced(Fence fence) : fence_(fence) {}

  template <class T>
  T* copy(const std::vector<T>& values) {
    return reinterpret_cast<T*>(bytes(std::as_bytes(std::span(values))));
  }
  std::byte* bytes(std::span<const std::byte> bytes) {
    return kept_.emplace_back(bytes, fence_).data();
  }
  float* floats(int64_t count) {
    return copy(std::vector<float>(static_cast<size_t>(count), 0.5f));
  }

 private:
  Fence fence_;
  std::deque<FencedBytes> kept_;
};

}  // namespace skald::test
