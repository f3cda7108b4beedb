// A stream of uniform random numbers, for the data of cases.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/rng.h"

namespace skald::selftest {

class Numbers {
 public:
  explicit Numbers(uint64_t seed) : seed_(seed) {}

  double next() { return uniform(seed_, 0, count_++, 0); }  // in [0, 1)
  // A number with a standard deviation near 1.
  float spread() { return static_cast<float>(3.4 * next() - 1.7); }
  float between(double least, double most) {
    return static_cast<float>(least + (most - least) * next());
  }
  std::vector<float> some(int64_t count, double least, double most) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& x : values) x = between(least, most);
    return values;
  }

 private:
  uint64_t seed_;
  int64_t count_ = 0;
};

}  // namespace skald::selftest
