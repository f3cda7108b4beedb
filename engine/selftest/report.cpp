#include "engine/selftest/report.h"

#include <algorithm>

#include "engine/base/error.h"

namespace skald::selftest {

void Report::add_line(Sort sort, const std::string& label, const Result& result) {
  auto line = std::find_if(lines_.begin(), lines_.end(), [&](const Line& l) {
    return l.sort == sort && l.kernel == result.kernel && l.type == result.type;
  });
  if (line == lines_.end()) {
    lines_.push_back({sort, std::string(result.kernel), result.type, 0, 0, 0, 0, 0, ""});
    line = lines_.end() - 1;
  }
  ++line->cases;
  line->selected += result.selected ? 1 : 0;
  // Compares relative to each case's own bound, which may be zero.
  const auto beyond = [](double error, double bound) {
    return error == 0 ? 0 : error / (bound + 1e-300);
  };
  if (line->cases == 1 || beyond(result.error, result.bound) > beyond(line->error, line->bound)) {
    line->error = result.error;
    line->bound = result.bound;
    line->worst = label;
  }
  if (result.good()) return;
  ++line->failed;
  constexpr size_t kMostInWords = 20;
  if (failures_.size() >= kMostInWords) return;
  failures_.push_back(concat(result.kernel, ": ", label, ": ",
                             result.problem.empty()
                                 ? concat("error ", result.error, ", bound ", result.bound)
                                 : result.problem));
}

int Report::cases() const {
  int sum = 0;
  for (const Line& line : lines_) sum += line.cases;
  return sum;
}

int Report::failed() const {
  int sum = 0;
  for (const Line& line : lines_) sum += line.failed;
  return sum;
}

std::string_view sort_name(Sort sort) {
  constexpr std::string_view kNames[] = {"product", "attention", "pointwise", "score",
                                         "experts", "state",     "exchange"};
  return kNames[static_cast<size_t>(sort)];
}

}  // namespace skald::selftest
