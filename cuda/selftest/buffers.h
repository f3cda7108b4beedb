// Device buffers of one test case. Each lies between guards. Buffers and guards are filled with
// 0xff bytes, which are NaN in every type: a kernel that reads beyond its data gives NaN, and
// intact() finds a kernel that writes beyond its buffer.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "cuda/gpu/check.h"
#include "cuda/gpu/memory.h"
#include "engine/quant/dtype.h"
#include "engine/selftest/data.h"

namespace skald::cuda {

struct TestBuffer {
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

class TestBuffers {
 public:
  // With `separate`, each buffer is an allocation that ends where the buffer ends, so that
  // compute-sanitizer sees accesses beyond it.
  TestBuffers(cudaStream_t stream, bool separate) : stream_(stream), separate_(separate) {
    if (!separate) arena_ = DeviceMemory(kArenaBytes, "the self-test");
  }

  // Forgets all buffers.
  void reset() {
    used_ = 0;
    own_.clear();
  }

  TestBuffer poisoned(int64_t bytes) {
    const int64_t whole = kGuardBytes + bytes + guard_after();
    std::byte* start;
    if (separate_) {
      own_.emplace_back(whole, "the self-test");
      start = own_.back().as<std::byte>();
    } else {
      check(used_ + padded(whole) <= kArenaBytes, "the self-test's cases fit into its memory");
      start = arena_.as<std::byte>() + used_;
      used_ += padded(whole);
    }
    SKALD_CUDA(cudaMemsetAsync(start, 0xff, static_cast<size_t>(whole), stream_));
    return {start + kGuardBytes, bytes};
  }

  TestBuffer holding(std::span<const std::byte> bytes) {
    const TestBuffer buffer = poisoned(static_cast<int64_t>(bytes.size()));
    copy(buffer.data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
    return buffer;
  }
  template <class T>
  TestBuffer holding(const std::vector<T>& values) {
    return holding(std::as_bytes(std::span(values)));
  }
  TestBuffer holding(DType type, const std::vector<float>& values) {
    return holding(selftest::encode(type, values));
  }

  std::vector<std::byte> bytes_of(const TestBuffer& buffer) const {
    std::vector<std::byte> bytes(static_cast<size_t>(buffer.bytes));
    copy(bytes.data(), buffer.data, bytes.size(), cudaMemcpyDeviceToHost);
    return bytes;
  }

  // True if nothing was written around the buffer.
  bool intact(const TestBuffer& buffer) const {
    const auto poison = [](std::byte b) { return b == std::byte{0xff}; };
    const auto before = bytes_of({buffer.data - kGuardBytes, kGuardBytes});
    const auto after = bytes_of({buffer.data + buffer.bytes, guard_after()});
    return std::all_of(before.begin(), before.end(), poison) &&
           std::all_of(after.begin(), after.end(), poison);
  }

 private:
  static constexpr int64_t kGuardBytes = 1024;
  static constexpr int64_t kArenaBytes = 256 << 20;
  int64_t guard_after() const { return separate_ ? 0 : kGuardBytes; }
  static int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

  // The copy is complete when it returns.
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const {
    if (bytes == 0) return;
    SKALD_CUDA(cudaMemcpyAsync(to, from, bytes, kind, stream_));
    SKALD_CUDA(cudaStreamSynchronize(stream_));
  }

  cudaStream_t stream_;
  bool separate_;
  DeviceMemory arena_;
  int64_t used_ = 0;
  std::vector<DeviceMemory> own_;
};

}  // namespace skald::cuda
