#include "cuda/step_clock.h"

#include "cuda/check.h"

namespace skald::cuda {

void StepClock::begin(cudaStream_t stream) {
  turn_ = (turn_ + 1) % kPairs;
  Pair& pair = pairs_[turn_];
  settle(pair);
  SKALD_CUDA(cudaEventRecord(pair.begin, stream));
  SKALD_CUDA(cudaEventRecord(pair.end, stream));  // a step that fails has an end too
  pair.under_way = true;
}

void StepClock::end(cudaStream_t stream) {
  if (pairs_[turn_].under_way) SKALD_CUDA(cudaEventRecord(pairs_[turn_].end, stream));
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
