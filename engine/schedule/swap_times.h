// How long the steps and copies of this run have taken. They decide whether the cache of a
// preempted sample waits in the host's memory or is computed again. Arithmetic only: the caller has
// the clock.
#pragma once

#include <cstdint>

namespace skald {

class SwapTimes {
 public:
  // A step has `rows`, `of_prompts` of which belong to prompts. A device may still compute them
  // when `seconds` have passed; the rest of their time comes with finished().
  void ran(int64_t rows, int64_t of_prompts, double seconds);
  // The rows so far are computed. `seconds`: spent waiting for them.
  void finished(double seconds);

  void copied_out(int64_t bytes, double seconds) { copies_out_.add(bytes, seconds); }
  void copied_back(int64_t bytes, double seconds) { copies_back_.add(bytes, seconds); }

  // True if `bytes` are copied out and back in the time in which `rows` of prompts are computed.
  // Times that are not known yet count as short, so that they become known. After kTryAgain times
  // false in a row, it is true once: a slow copy does not decide for ever.
  bool copy_is_faster(int64_t bytes, int64_t rows);

  static constexpr int kTryAgain = 64;

 private:
  struct Rate {
    int64_t units = 0;
    double seconds = 0;

    void add(int64_t more, double time) {
      units += more;
      seconds += time;
    }
    // The time of `count` units; 0 if no unit has been measured.
    double of(int64_t count) const {
      return units > 0 ? seconds / static_cast<double>(units) * static_cast<double>(count) : 0;
    }
  };

  int64_t rows_ = 0, of_prompts_ = 0;            // that the device may still compute
  double seconds_ = 0;                           // of these rows, so far
  Rate prompt_rows_, copies_out_, copies_back_;  // units: rows, bytes, bytes
  int refused_ = 0;                              // in a row
};

}  // namespace skald
