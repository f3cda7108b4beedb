// Lets tests simulate a lack of GPU memory at any acquisition (cuda/gpu/acquire.h). Only tests use
// it; otherwise it costs one comparison per acquisition.
#pragma once

namespace skald::cuda {

// While it lives, the n-th acquisition by this thread (counted from 1) fails as if the GPU were out
// of memory. At most one lives at a time.
class FailingAcquisition {
 public:
  explicit FailingAcquisition(int n);
  ~FailingAcquisition();
  FailingAcquisition(const FailingAcquisition&) = delete;
  FailingAcquisition& operator=(const FailingAcquisition&) = delete;

  bool happened() const;
};

// Counts an acquisition. True if this acquisition is to fail.
bool acquisition_fails();

}  // namespace skald::cuda
