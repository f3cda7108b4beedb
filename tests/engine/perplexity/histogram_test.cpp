#include "engine/perplexity/histogram.h"

#include <algorithm>
#include <cmath>

#include "engine/base/rng.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("bins are ordered, and a bin's middle lies within 0.05 % of its values") {
  double last = -1e30;
  for (const double x : {-1e9, -1.0, -0.5, -1e-6, 0.0, 1e-9, 1e-6, 0.3, 0.5, 1.0, 22.0, 1e9}) {
    CAPTURE(x);
    CHECK(Histogram::bin(x) < Histogram::kBins);
    CHECK(Histogram::bin(last) < Histogram::bin(x));
    CHECK(std::fabs(Histogram::middle(Histogram::bin(x)) - x) <= 1e-3 * std::fabs(x) / 2);
    last = x;
  }
  CHECK(Histogram::bin(-0.0) == Histogram::bin(0.0));
}

TEST_CASE("percentiles agree with those of the sorted values to 0.1 %") {
  std::vector<double> values;
  Histogram histogram;
  for (int64_t i = 0; i < 1001; ++i) {
    values.push_back(std::pow(uniform(1, 2, i) - 0.3, 3));
    histogram.add(Histogram::bin(values.back()));
  }
  std::sort(values.begin(), values.end());
  for (const double percent : {0.0, 0.1, 1.0, 10.0, 50.0, 90.0, 99.9, 100.0}) {
    CAPTURE(percent);
    const double place = percent * 10;
    const auto low = static_cast<size_t>(place);
    const double high = values[std::min<size_t>(low + 1, 1000)];
    const double expected = values[low] + (place - static_cast<double>(low)) * (high - values[low]);
    CHECK(histogram.percentile(percent) == Approx(expected).epsilon(1e-3).margin(1e-6));
  }
}

}  // namespace
}  // namespace skald::test
