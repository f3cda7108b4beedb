// What a person reads at the end of a run over lines: which lines failed and why, and how an
// interrupted run goes on.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "app/jobs/line.h"

namespace skald {

class JobFailures {
 public:
  static constexpr size_t kMostShown = 3;

  void add(int64_t line, const LineProblem& problem);  // any thread may call

  // A line on stderr for each of the first lines of the input that failed, and one that counts the
  // others. Empty if none failed.
  std::string text() const;

 private:
  struct Failure {
    int64_t line;
    std::string reason;
  };

  mutable std::mutex mutex_;
  std::vector<Failure> first_;  // sorted by line
  int64_t count_ = 0;
};

// `file`: the output is a file, so that --resume can go on with it.
std::string how_to_go_on(bool file);

}  // namespace skald
