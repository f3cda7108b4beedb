#include "cuda/gpu/step_clock.h"

#include "cuda/gpu/check.h"

namespace skald::cuda {

void StepClock::mark(cudaEvent_t time, cudaStream_t stream) {
  SKALD_CUDA(cudaEventRecord(reached_, stream));
  SKALD_CUDA(cudaStreamWaitEvent(beside_, reached_, 0));
  SKALD_CUDA(cudaEventRecord(time, beside_));
}

void StepClock::begin(cudaStream_t stream) {
  pair_index_ = (pair_index_ + 1) % kPairs;
  Pair& pair = pairs_[pair_index_];
  settle(pair);
  mark(pair.begin, stream);
  pair.under_way = true;
}

void StepClock::end(cudaStream_t stream) {
  if (pairs_[pair_index_].under_way) mark(pairs_[pair_index_].end, stream);
}

void StepClock::settle(Pair& pair) {
  if (!pair.under_way) return;
  SKALD_CUDA(cudaEventSynchronize(pair.end));
  float milliseconds = 0;
  SKALD_CUDA(cudaEventElapsedTime(&milliseconds, pair.begin, pair.end));
  seconds_ += double{milliseconds} / 1000;
  pair.under_way = false;
}

double StepClock::seconds() {
  for (Pair& pair : pairs_) settle(pair);
  return seconds_;
}

}  // namespace skald::cuda
