#include "engine/selftest/cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/selftest/data.h"
#include "tests/catch.h"
#include "tests/engine/cpu/targets.h"

using namespace skald;
using namespace skald::selftest;

TEST_CASE("all op cases pass on the CPU's reference kernels and on every fast instruction set") {
  Report reference;
  test_cpu({}, cpu::KernelSet::Reference, 1, reference);
  for (const std::string& failure : reference.failures()) UNSCOPED_INFO(failure);
  CHECK(reference.failed() == 0);
  CHECK(reference.cases() > 900);
  test::for_each_target([] {
    Report report;
    test_cpu({Extent::Small, 5}, cpu::KernelSet::Fast, 2, report);
    for (const std::string& failure : report.failures()) UNSCOPED_INFO(failure);
    CHECK(report.failed() == 0);
  });
}

TEST_CASE("the bounds of op cases separate wrong results from rounded ones") {
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    const ProductCase c{type, 33, 64, 5, Ending::Store};
    const ProductData data = make_data(c, 9);
    std::vector<float> out(data.expected.values.begin(), data.expected.values.end());
    CHECK(data.expected.error(out) < data.expected.bound / 10);
    std::vector<float> rounded = decode(type, encode(type, out));
    CHECK(data.expected.error(rounded) <= data.expected.bound);
    // One of 165 values is off by 0.2, or NaN.
    std::vector<float> wrong = rounded;
    wrong[100] += 0.2f;
    CHECK(data.expected.error(wrong) > data.expected.bound);
    wrong[100] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isinf(data.expected.error(wrong)));
    // The rows are in the wrong order.
    std::rotate(rounded.begin(), rounded.begin() + 33, rounded.end());
    CHECK(data.expected.error(rounded) > 0.5);
  }
}

TEST_CASE("a report counts cases by kernel and type, and describes the worst") {
  Report report;
  const PointwiseCase a{Pointwise::Norm, DType::F16, 3, 33}, b{Pointwise::Gate, DType::F16, 1, 1};
  report.add(Sort::Pointwise, a, {"fast", DType::F16, 1e-4, 1e-3, true, ""});
  report.add(Sort::Pointwise, b, {"fast", DType::F16, 2e-3, 1e-3, false, ""});
  report.add(Sort::Pointwise, b, {"slow", DType::F16, 0, 0, false, "it wrote beyond its output"});
  REQUIRE(report.lines().size() == 2);
  CHECK(report.lines()[0].cases == 2);
  CHECK(report.lines()[0].selected == 1);
  CHECK(report.lines()[0].failed == 1);
  CHECK(report.lines()[0].error == 2e-3);
  CHECK(report.lines()[0].worst == label(b));
  CHECK(report.cases() == 3);
  CHECK(report.failed() == 2);
  REQUIRE(report.failures().size() == 2);
  CHECK(report.failures()[1] == "slow: F16 gate, 1 rows of 1: it wrote beyond its output");
}

TEST_CASE("another seed gives other numbers of the same distribution") {
  const ProductCase c{DType::BF16, 8, 32, 2, Ending::Gated, true, true};
  CHECK(make_data(c, 1).in == make_data(c, 1).in);
  CHECK(make_data(c, 1).in != make_data(c, 2).in);
  double mean = 0, square = 0;
  const ProductData many = make_data({DType::F32, 1, 1, 50000, Ending::Store}, 3);
  for (float x : many.in) mean += x, square += double{x} * x;
  CHECK(std::fabs(mean / 50000) < 0.02);
  CHECK(std::fabs(square / 50000 - 1) < 0.02);
}
