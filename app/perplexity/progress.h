// Shows the progress of a long run in one line of a terminal on stderr. Prints nothing elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace skald {

class LiveLine {
 public:
  LiveLine();
  ~LiveLine() { clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  bool shown() const { return terminal_; }
  // Replaces the line, at most ten times a second. `last` is always shown.
  void show(const std::string& text, bool last = false);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_, visible_ = false;
  Clock::time_point next_ = Clock::now();
};

// Measures a run's speed and estimates the time left.
class Pace {
 public:
  explicit Pace(int64_t all) : all_(all) {}
  void done(int64_t chunks, int64_t tokens) { chunks_ += chunks, tokens_ += tokens; }
  std::string text() const;  // "5120 tokens/s, 3:12 left"

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t all_, chunks_ = 0, tokens_ = 0;
};

}  // namespace skald
