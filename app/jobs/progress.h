// How far a run over lines is, for people and for the manifest.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "app/terminal/progress.h"

namespace skald {

// Any thread may count.
struct JobCounts {
  std::atomic<int64_t> done = 0;     // lines with a result of this run
  std::atomic<int64_t> failed = 0;   // lines with an error object
  std::atomic<int64_t> skipped = 0;  // too long, and passed over as asked
  std::atomic<int64_t> earlier = 0;  // done by an earlier run
  std::atomic<int64_t> tokens_in = 0, tokens_out = 0;

  int64_t lines() const { return done + failed + skipped + earlier; }
};

class JobProgress {
 public:
  // total: lines of the input, or -1 where that is not known.
  JobProgress(Progress::Style style, int64_t total, const JobCounts& counts)
      : progress_(style), total_(total), counts_(counts) {}

  void show();  // does nothing until it is time; only one thread calls it
  void clear() { progress_.clear(); }
  double seconds() const { return progress_.seconds(); }

  std::string line(double seconds) const;
  std::string summary(double seconds) const;

 private:
  Progress progress_;
  const int64_t total_;
  const JobCounts& counts_;
};

}  // namespace skald
