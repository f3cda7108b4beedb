// How far a batch is: on a terminal one line that is rewritten, in a log a line every ten seconds,
// or nothing. Any thread may count; one thread shows.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace skald {

struct BatchCounts {
  std::atomic<int64_t> done = 0;     // lines with a result of this run
  std::atomic<int64_t> failed = 0;   // lines with an error object
  std::atomic<int64_t> skipped = 0;  // too long, and passed over as asked
  std::atomic<int64_t> earlier = 0;  // done by an earlier run
  std::atomic<int64_t> tokens_in = 0, tokens_out = 0;

  int64_t lines() const { return done + failed + skipped + earlier; }
};

// "1 h 5 min", "2 min 10 s", "7 s"
std::string duration_text(double seconds);

class BatchProgress {
 public:
  enum class Style { Terminal, Log, Quiet };
  using Clock = std::chrono::steady_clock;

  // total: lines of the input, as far as known; -1: they are not.
  BatchProgress(Style style, int64_t total, const BatchCounts& counts)
      : style_(style), total_(total), counts_(counts) {}

  void show(Clock::time_point now = Clock::now());  // when it is time
  void clear();                                     // the terminal's line, before others
  std::string line(double seconds) const;
  std::string summary(double seconds) const;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  const Style style_;
  const int64_t total_;
  const BatchCounts& counts_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  bool on_screen_ = false;
};

}  // namespace skald
