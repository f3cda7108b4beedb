// A reserve for memory that CUDA takes while steps run: it loads kernels at their first launch, and
// graphs and cuBLAS have buffers. Another program may take all free memory of the GPU at any time,
// but not this reserve.
#pragma once

#include <cstdint>

#include "cuda/gpu/memory.h"
#include "engine/base/error.h"

namespace skald::cuda {

class SpareMemory {
 public:
  explicit SpareMemory(int64_t bytes) : memory_(bytes, "CUDA itself") {}

  // Returns fn(). If memory runs out, the reserve is freed for good and fn is called once more: fn
  // must allow a second call. repeats: false leaves that call to the caller.
  template <class Fn>
  auto use(const Fn& fn, bool repeats = true) {
    if (memory_.bytes() > 0) {
      try {
        return fn();
      } catch (const Error& error) {
        if (error.code() != Exit::Memory) throw;
        memory_ = DeviceMemory();
        if (!repeats) throw;
      }
    }
    return fn();
  }

 private:
  DeviceMemory memory_;
};

}  // namespace skald::cuda
