// Lets tests run out of GPU memory at any acquisition; cuda/gpu/acquire.h asks it. Only tests set
// it. Outside of tests it costs a comparison for each acquisition.
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
