// The distance of results from a reference, relative to the reference's size.
#pragma once

#include <cmath>
#include <vector>

namespace skald::test {

inline double relative_error(const std::vector<float>& a, const std::vector<float>& reference) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - reference[i], 2);
    size += std::pow(double{reference[i]}, 2);
  }
  return std::sqrt(difference / size);
}

}  // namespace skald::test
