// Owned memory: on the current device, or page-locked on the host, which the device copies from and
// to at full speed. Owners can be moved, not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace skald::cuda {

enum class Place { Device, PinnedHost };

template <Place kPlace>
class Memory {
 public:
  Memory() = default;
  Memory(int64_t bytes, const char* purpose);  // throws Error(Exit::Memory), naming the purpose
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory();

  int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

using DeviceMemory = Memory<Place::Device>;
using PinnedMemory = Memory<Place::PinnedHost>;

}  // namespace skald::cuda
