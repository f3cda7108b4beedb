// The results of the cases, one line for each kernel and type. The code that runs the cases adds
// results; the app and the tests read the lines.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/quant/dtype.h"
#include "engine/selftest/cases.h"

namespace skald::selftest {

enum class Sort : uint8_t { Product, Attention, Pointwise, Score, Experts, State, Exchange };

struct Request {
  Extent extent = Extent::Full;
  uint64_t seed = 1;
  bool products = true, attention = true, pointwise = true, scores = true;
  bool experts = true;  // run on GPUs only
  bool states = true;
};

struct Result {
  std::string_view kernel;
  DType type;
  double error, bound;
  bool selected = false;  // true: the kernel that the planner would choose for this case
  std::string problem;    // another fault: "wrote beyond its output"
  bool good() const { return error <= bound && problem.empty(); }
};

struct Line {
  Sort sort;
  std::string kernel;
  DType type;
  int cases = 0, selected = 0, failed = 0;
  double error = 0, bound = 0;  // the case with the largest error / bound
  std::string worst;            // label of that case
};

class Report {
 public:
  template <class Case>
  void add(Sort sort, const Case& c, const Result& result) {
    add_line(sort, label(c), result);
  }
  std::span<const Line> lines() const { return lines_; }
  std::span<const std::string> failures() const { return failures_; }  // the first few, as text
  int cases() const;
  int failed() const;

 private:
  void add_line(Sort sort, const std::string& label, const Result& result);

  std::vector<Line> lines_;
  std::vector<std::string> failures_;
};

std::string_view sort_name(Sort sort);

}  // namespace skald::selftest
