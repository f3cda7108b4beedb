// A download as one line: bar, share, bytes, speed of the last seconds, time left. The line is
// made as short as the terminal is narrow.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

#include "app/hub/download.h"
#include "app/terminal/progress.h"

namespace skald {

// The longest form that has less than `columns` characters. `rate` is in bytes a second; 0:
// unknown.
std::string download_line(const DownloadState& state, int64_t all, double rate, int columns);

class DownloadProgress {
 public:
  explicit DownloadProgress(int64_t all) : all_(all) {}
  void show(const DownloadState& state);
  void clear() { progress_.clear(); }

 private:
  double rate(const DownloadState& state);

  struct Sample {
    double seconds;
    int64_t fetched;
  };
  int64_t all_;
  std::deque<Sample> samples_;  // of the last seconds
  Progress progress_{progress_style(Progress::Style::Log)};
};

}  // namespace skald
