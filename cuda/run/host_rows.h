// Brings float32 rows of the last step to the host: hidden rows, and features for a guessing head.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/gpu/memory.h"
#include "cuda/run/step_ops.h"

namespace skald::cuda {

class HostRows {
 public:
  // `normed` has memory for `most` rows, which are normed together.
  HostRows(StepOps& ops, const DeviceMemory& normed, int64_t most, Stream stream)
      : ops_(ops), normed_(normed), most_(most), stream_(stream) {}

  struct Shape {
    int64_t count, cols;
  };
  // Rows on the GPU, as they are or after the norm of the head. Waits for them. The result is valid
  // until the next call.
  std::span<const float> bring(const float* rows, Shape shape, bool norms);

 private:
  StepOps& ops_;
  const DeviceMemory& normed_;
  int64_t most_;
  Stream stream_;
  PinnedMemory host_;  // a call may make it larger
};

}  // namespace skald::cuda
