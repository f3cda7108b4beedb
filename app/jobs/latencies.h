// How long lines took, each from the beginning of its computation to its result: for --report.
// Takes 4 bytes for each line. Any thread may add.
#pragma once

#include <mutex>
#include <vector>

#include "app/files/json_fwd.h"

namespace skald {

class Latencies {
 public:
  void add(double seconds);

  // {"lines", "p50", "p95", "max"} in seconds; a percentile is the time of a line. Null if there is
  // none.
  Json json() const;

 private:
  mutable std::mutex mutex_;
  std::vector<float> seconds_;
};

}  // namespace skald
