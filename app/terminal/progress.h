// How far a long job is, on stderr where that is a terminal: a bar, the share, the rate and the
// time left, redrawn a few times a second and wiped away at the end. Elsewhere nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace skald {

class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // So many bytes are done; what: that the last ones belong to.
  void show(int64_t bytes, int64_t of, std::string_view what);

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_;
  Clock::time_point start_ = Clock::now(), drawn_{};
};

}  // namespace skald
