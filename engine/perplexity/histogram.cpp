#include "engine/perplexity/histogram.h"

#include <bit>
#include <cmath>

#include "engine/base/error.h"

namespace skald {
namespace {

constexpr int kDropped = 13;  // trailing bits of a float32 that are not counted
constexpr uint32_t kSign = 0x80000000u;

}  // namespace

Histogram::Bin Histogram::bin(double value) {
  // + 0.0f turns -0 into 0
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value) + 0.0f);
  // Maps floats to integers in the same order. The bits of negative floats are inverted.
  return (bits & kSign ? ~bits : bits | kSign) >> kDropped;
}

double Histogram::middle(Bin bin) {
  const uint32_t ordered = bin << kDropped | 1u << (kDropped - 1);
  const float value = std::bit_cast<float>(ordered & kSign ? ordered ^ kSign : ~ordered);
  return std::fabs(value) < 1e-37f ? 0 : value;
}

double Histogram::percentile(double percent) const {
  check(total_ > 0, "a histogram has values");
  // Interpolates between the values of neighbouring ranks, as NumPy and llama.cpp do.
  const double place = percent / 100 * static_cast<double>(total_ - 1);
  const int64_t rank = static_cast<int64_t>(place);
  const auto value_at = [&](int64_t wanted) {
    Bin bin = 0;
    for (int64_t before = counts_[0]; before <= wanted; before += counts_[bin]) ++bin;
    return middle(bin);
  };
  const double low = value_at(rank);
  if (rank + 1 >= total_) return low;
  return low + (place - static_cast<double>(rank)) * (value_at(rank + 1) - low);
}

}  // namespace skald
