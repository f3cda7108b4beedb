// Owning memory, page-aligned and zero-filled. The system provides a page only when the page is
// first touched, so a cache for a long context costs nothing until tokens fill it. A Buffer moves
// and never copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace skald {

class Buffer {
 public:
  Buffer() = default;
  Buffer(int64_t bytes, const char* purpose);  // throws Error(Exit::Memory) that names the purpose
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace skald
