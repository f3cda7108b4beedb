// Percentiles of any number of values in 4 MB. Values are counted by the leading 19 bits of their
// float32, which distinguishes values that differ by 0.1 % or more.
#pragma once

#include <cstdint>
#include <vector>

namespace skald {

class Histogram {
 public:
  using Bin = uint32_t;

  static Bin bin(double value);   // monotonic: a larger value never has a smaller bin
  static double middle(Bin bin);  // the middle of the bin's values
  static constexpr Bin kBins = 1 << 19;

  void add(Bin bin) { ++counts_[bin], ++total_; }

  int64_t total() const { return total_; }
  double percentile(double percent) const;  // 0 to 100; total() must not be 0

 private:
  std::vector<int64_t> counts_ = std::vector<int64_t>(kBins);
  int64_t total_ = 0;
};

}  // namespace skald
