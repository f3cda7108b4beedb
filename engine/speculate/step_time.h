// The mean time of steps of one kind, from several measurements.
#pragma once

#include <algorithm>

namespace skald {

struct StepTime {
  // The first steps of a number of rows also set things up: a GPU loads kernels, captures a graph
  // and uploads it. So the time is believed only after this many steps.
  static constexpr int kFirstSteps = 4;

  double seconds = 0;  // 0: not known
  int times = 0;

  bool believed() const { return times >= kFirstSteps; }

  // `share`: the weight of the new measurement in the mean.
  void add(double measured, double share) {
    if (++times <= kFirstSteps) {
      seconds = seconds > 0 ? std::min(seconds, measured) : measured;  // the fastest of them counts
    } else {  // another program may have run
      seconds += share * (std::min(measured, 2 * seconds) - seconds);
    }
  }
};

}  // namespace skald
