// What the data of delta nets and of state spaces have in common: the states of sequences before a
// step, the results, and the states afterwards. Only states.cpp and spaces.cpp include this file.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "engine/selftest/data.h"
#include "engine/selftest/numbers.h"

namespace skald::selftest {

inline std::vector<float> rounded(DType type, const std::vector<float>& values) {
  return decode(type, encode(type, values));
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }

inline double squared_length(const double* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return sum;
}
inline double length(const std::vector<double>& values) {
  return std::sqrt(squared_length(values.data(), std::ssize(values)));
}

// Makes the states of the case's sequences, computes the step by a Sequence for each, which
// data.out's bound and the states afterwards come from. The rest of `data` is there.
template <class Sequence, class Case, class Data>
void compute_sequences(const Case& c, Numbers& numbers, Data& data) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const int64_t cols = c.conv_cols();
  double enlarged = 0;
  int64_t row = 0;
  for (size_t p = 0; p < c.parts.size(); ++p) {
    const Part& part = c.parts[p];
    std::vector<float> inputs(static_cast<size_t>((c.taps - 1) * cols), kNan);
    std::vector<float> matrix(static_cast<size_t>(c.spec.state_floats()), kNan);
    if (part.before > 0) {
      // Rows that a sequence of this length does not have are zeros.
      const int64_t old = std::min<int64_t>(part.before, c.taps - 1) * cols;
      const std::vector<float> last = rounded(c.type, numbers.some(old, -1.7, 1.7));
      std::fill(inputs.begin(), inputs.end() - old, 0.0f);
      std::copy(last.begin(), last.end(), inputs.end() - old);
      matrix = numbers.some(c.spec.state_floats(), -0.3, 0.3);
    }
    data.inputs.push_back(std::move(inputs));
    data.matrices.push_back(std::move(matrix));
    Sequence sequence(c, data, p);
    for (int r = 0; r < part.rows; ++r) sequence.step(row++, data.out.values);
    enlarged += sequence.enlarged();
    const std::vector<double>& after = sequence.matrix();
    data.learned.values.insert(data.learned.values.end(), after.begin(), after.end());
    data.inputs_after.push_back(sequence.inputs());
  }
  // Queries, keys, values and results are rounded to the type on the way.
  const double rounding = c.type == DType::F32 ? 0 : c.type == DType::F16 ? 0x1p-11 : 0x1p-8;
  data.out.size = length(data.out.values);
  data.out.bound = (4 * rounding + 1e-5) * std::sqrt(enlarged) / data.out.size;
  data.learned.size = length(data.learned.values);
  data.learned.bound = 4 * rounding + 1e-5;
}

}  // namespace skald::selftest
