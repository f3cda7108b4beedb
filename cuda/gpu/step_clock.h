// Measures how long the GPU computes: for each step, from the start of its first kernel to the end
// of its last, with picks and scores. Time between steps belongs to the host. Times are taken on a
// second stream, because an event with a time would delay the measured stream by 1.5 us.
#pragma once

#include <cstddef>

#include "cuda/gpu/handles.h"

namespace skald::cuda {

class StepClock {
 public:
  // Waits only if more than kPairs steps are running.
  void begin(cudaStream_t stream);
  // Everything enqueued until now belongs to the step. Call it at least once for each step.
  void end(cudaStream_t stream);

  double seconds();  // the sum over all steps; waits for the last one

 private:
  struct Pair {
    TimedEventOwner begin, end;
    bool under_way = false;
  };
  static constexpr size_t kPairs = 4;

  void mark(cudaEvent_t time, cudaStream_t stream);
  void settle(Pair& pair);

  StreamOwner beside_;
  EventOwner reached_;
  Pair pairs_[kPairs];
  size_t pair_index_ = 0;
  double seconds_ = 0;
};

}  // namespace skald::cuda
