#include "app/jobs/latencies.h"

#include <algorithm>
#include <cmath>

#include "app/files/json.h"
#include "app/files/json_number.h"

namespace skald {

void Latencies::add(double seconds) {
  const std::lock_guard lock(mutex_);
  seconds_.push_back(static_cast<float>(seconds));
}

Json Latencies::json() const {
  const std::lock_guard lock(mutex_);
  if (seconds_.empty()) return nullptr;
  std::vector<float> sorted = seconds_;
  std::sort(sorted.begin(), sorted.end());
  // The least time that so large a share of the lines does not exceed.
  const auto percentile = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(sorted.size()));
    return float_json(sorted[static_cast<size_t>(std::max(rank - 1, 0.0))]);
  };
  return {{"lines", sorted.size()},
          {"p50", percentile(0.5)},
          {"p95", percentile(0.95)},
          {"max", float_json(sorted.back())}};
}

}  // namespace skald
