// A way for tests to run out of GPU memory at any moment; cuda/gpu/acquire.h asks. Nothing else
// sets it, and without a test it costs a comparison for each allocation.
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

// Counts an acquisition; true where it is the one to fail.
bool acquisition_fails();

}  // namespace skald::cuda
