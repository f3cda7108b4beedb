#include "cuda/gpu/faults.h"

namespace skald::cuda {
namespace {

thread_local int acquisitions_left = 0;  // n: the n-th from now fails; 0: none; -1: one has failed

}  // namespace

FailingAcquisition::FailingAcquisition(int n) { acquisitions_left = n; }
FailingAcquisition::~FailingAcquisition() { acquisitions_left = 0; }
bool FailingAcquisition::happened() const { return acquisitions_left < 0; }

bool acquisition_fails() {
  if (acquisitions_left <= 0 || --acquisitions_left > 0) return false;
  acquisitions_left = -1;
  return true;
}

}  // namespace skald::cuda
