// Memory that is held back for what CUDA takes by itself while steps run: kernels are loaded when
// they are first launched, graphs and cuBLAS have buffers. Another program may take all that is
// free on the GPU in the middle of a run; this it cannot take.
#pragma once

#include <cstdint>

#include "cuda/gpu/memory.h"
#include "engine/base/error.h"

namespace skald::cuda {

class SpareMemory {
 public:
  explicit SpareMemory(int64_t bytes) : memory_(bytes, "CUDA itself") {}

  // What fn returns. Where memory runs out all that is held is freed, once and for good, and fn is
  // called again: nothing may hinder that.
  template <class Fn>
  auto use(const Fn& fn) {
    if (memory_.bytes() > 0) {
      try {
        return fn();
      } catch (const Error& error) {
        if (error.code() != Exit::Memory) throw;
      }
      memory_ = DeviceMemory();
    }
    return fn();
  }

 private:
  DeviceMemory memory_;
};

}  // namespace skald::cuda
