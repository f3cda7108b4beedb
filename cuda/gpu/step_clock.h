// How long the GPU computes, step by step: from where a step's first work begins to where its last
// ends, picks and scores included. What lies between steps is the host's time. Times are taken on a
// stream beside the one that is timed, since an event with a time would hold that up by 1.5 us.
#pragma once

#include <cstddef>

#include "cuda/gpu/handles.h"

namespace skald::cuda {

class StepClock {
 public:
  // Waits only where more than kPairs steps are under way.
  void begin(cudaStream_t stream);
  // All that was enqueued until now belongs to the step; may be said again, and must be once.
  void end(cudaStream_t stream);

  double seconds();  // of all steps; waits for the last

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
  size_t turn_ = 0;
  double seconds_ = 0;
};

}  // namespace skald::cuda
