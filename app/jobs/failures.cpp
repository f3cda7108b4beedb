#include "app/jobs/failures.h"

#include <algorithm>

#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {

void JobFailures::add(int64_t line, const LineProblem& problem) {
  const std::lock_guard lock(mutex_);
  ++count_;
  const auto place = std::upper_bound(first_.begin(), first_.end(), line,
                                      [](int64_t l, const Failure& f) { return l < f.line; });
  first_.insert(place, {line, concat(problem.code, ": ", printable(problem.message, 200))});
  if (first_.size() > kMostShown) first_.pop_back();
}

std::string JobFailures::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const Failure& one : first_) {
    text += concat("skald: line ", one.line, " failed: ", one.reason, "\n");
  }
  const int64_t others = count_ - std::ssize(first_);
  if (others > 0) {
    text += concat("skald: ", counted(others, "more line"),
                   " failed; the result of each has the reason in \"error\"\n");
  }
  return text;
}

std::string how_to_go_on(bool file) {
  return file ? "skald: interrupted; the same command with --resume goes on from here\n"
              : "skald: interrupted; a run that writes to a file (-o FILE) can be continued with "
                "--resume, one to stdout cannot\n";
}

}  // namespace skald
