// Goodness of fit for tests with random draws: Pearson's chi-square test. Draws come from fixed
// seeds, so a test that passes once always passes.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace skald::test {

// Q(a, x), the upper incomplete gamma function divided by Gamma(a): a series for x < a + 1, else
// Lentz's continued fraction.
inline double upper_gamma(double a, double x) {
  if (x <= 0) return 1;
  const double scale = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a;
    double sum = term;
    for (int n = 1; n < 100000 && term > sum * 1e-16; ++n) {
      term *= x / (a + n);
      sum += term;
    }
    return 1 - sum * scale;
  }
  double b = x + 1 - a;
  double c = 1e300;
  double d = 1 / b;
  double fraction = d;
  for (int n = 1; n < 100000; ++n) {
    const double step = n * (a - n);
    b += 2;
    d = 1 / (step * d + b);
    c = b + step / c;
    fraction *= c * d;
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  return fraction * scale;
}

inline double chi_square_p_value(double statistic, double degrees_of_freedom) {
  return upper_gamma(degrees_of_freedom / 2, statistic / 2);
}

// The p-value of the counts under the probabilities, which sum to 1. Cells that expect fewer than
// five draws are pooled. A draw of probability 0 makes the result 0.
inline double goodness_of_fit(std::span<const int64_t> counts,
                              std::span<const double> probabilities) {
  double draws = 0;
  for (int64_t count : counts) draws += static_cast<double>(count);
  double statistic = 0;
  double pooled_expected = 0;
  double pooled_count = 0;
  int cells = 0;
  const auto add = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double count = static_cast<double>(counts[i]);
    const double expected = draws * probabilities[i];
    if (expected == 0 && count > 0) return 0;
    if (expected >= 5) {
      add(count, expected);
    } else {
      pooled_expected += expected;
      pooled_count += count;
    }
  }
  if (pooled_expected > 0.01 || pooled_count > 0) add(pooled_count, pooled_expected);
  return cells > 1 ? chi_square_p_value(statistic, cells - 1) : 1;
}

// False for a bad fit, and for a fit that is too good for chance.
inline bool plausible(double p_value) { return p_value > 1e-6 && p_value <= 1 - 1e-6; }

}  // namespace skald::test
