#include "engine/selftest/states.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/selftest/state_data.h"

namespace skald::selftest {
namespace {

// One sequence, in double precision.
class Net {
 public:
  Net(const DeltaCase& c, const DeltaData& data, size_t part)
      : c_(c), data_(data), matrix_(data.matrices[part].begin(), data.matrices[part].end()) {
    const std::vector<float>& inputs = data.inputs[part];
    inputs_.assign(inputs.begin(), inputs.end());
    if (c.parts[part].before > 0) return;
    std::fill(matrix_.begin(), matrix_.end(), 0);
    std::fill(inputs_.begin(), inputs_.end(), 0.0f);
  }

  // Appends the results of row `row` of the step to `out`.
  void step(int64_t row, std::vector<double>& out) {
    const auto cols = static_cast<size_t>(c_.conv_cols());
    const float* mixed = data_.mixed.data() + row * c_.conv_cols();
    inputs_.insert(inputs_.end(), mixed, mixed + cols);
    std::vector<double> convolved(cols);
    for (size_t i = 0; i < cols; ++i) {
      double sum = 0;
      for (int t = 0; t < c_.taps; ++t) {
        sum += double{data_.conv[i * static_cast<size_t>(c_.taps) + static_cast<size_t>(t)]} *
               inputs_[static_cast<size_t>(t) * cols + i];
      }
      convolved[i] = silu(sum);
    }
    inputs_.erase(inputs_.begin(), inputs_.begin() + static_cast<int64_t>(cols));
    for (int head = 0; head < c_.spec.value_heads; ++head) head_step(row, head, convolved, out);
  }

  // The squares of the results, added up, each times a factor: the squared terms of the head's sums
  // over the squared sums. If query and key are nearly orthogonal, the sums are much smaller than
  // their terms, and the norm enlarges the errors with the sums.
  double enlarged() const { return enlarged_; }
  const std::vector<double>& matrix() const { return matrix_; }
  const std::vector<float>& inputs() const { return inputs_; }

 private:
  void head_step(int64_t row, int head, const std::vector<double>& convolved,
                 std::vector<double>& out) {
    const DeltaSpec& s = c_.spec;
    const double* query = convolved.data() + int64_t{s.key_head(head)} * s.key_dim;
    const double* key = query + s.keys();
    const double* value = convolved.data() + 2 * s.keys() + int64_t{head} * s.value_dim;
    const double q_scale =
        1 / std::sqrt((squared_length(query, s.key_dim) + kDeltaNormEps) * s.key_dim);
    const double k_scale = 1 / std::sqrt(squared_length(key, s.key_dim) + kDeltaNormEps);
    const auto at = static_cast<size_t>(row * s.value_heads + head);
    const auto h = static_cast<size_t>(head);
    const double rate = c_.log_rate ? -std::exp(double{data_.rate[h]}) : double{data_.rate[h]};
    const double kept =
        std::exp(rate * std::log1p(std::exp(double{data_.decay[at]} + data_.bias[h])));
    const double corrected = 1 / (1 + std::exp(-double{data_.beta[at]}));
    double* matrix = matrix_.data() + int64_t{head} * s.key_dim * s.value_dim;
    std::vector<double> result(static_cast<size_t>(s.value_dim));
    double terms = 0, squares = 0;
    for (int j = 0; j < s.value_dim; ++j) {
      double held = 0;
      for (int i = 0; i < s.key_dim; ++i) {
        held += key[i] * k_scale * matrix[int64_t{i} * s.value_dim + j];
      }
      const double learned = corrected * (value[j] - kept * held);
      for (int i = 0; i < s.key_dim; ++i) {
        double& number = matrix[int64_t{i} * s.value_dim + j];
        number = kept * number + key[i] * k_scale * learned;
        const double term = query[i] * q_scale * number;
        result[static_cast<size_t>(j)] += term;
        terms += term * term;
      }
    }
    const double length = squared_length(result.data(), s.value_dim);
    const double scale = 1 / std::sqrt(length / s.value_dim + kNormEps);
    const float* gate = data_.gate.data() + row * s.values() + int64_t{head} * s.value_dim;
    for (int j = 0; j < s.value_dim; ++j) {
      out.push_back(result[static_cast<size_t>(j)] * scale * data_.norm[static_cast<size_t>(j)] *
                    silu(gate[j]));
      squares += out.back() * out.back();
    }
    enlarged_ += squares * std::max(1.0, terms / length);
  }

  const DeltaCase& c_;
  const DeltaData& data_;
  std::vector<double> matrix_;
  std::vector<float> inputs_;
  double enlarged_ = 0;
};

}  // namespace

int DeltaCase::rows() const {
  int sum = 0;
  for (const Part& part : parts) sum += part.rows;
  return sum;
}

bool DeltaCase::one_row_each() const {
  return std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.rows == 1; });
}

std::vector<DeltaCase> delta_cases(Extent extent) {
  using enum HeadOrder;
  std::vector<DeltaCase> cases;
  for (const DType type : {DType::F32, DType::F16, DType::BF16}) {
    const auto add = [&](DeltaSpec spec, int taps, std::vector<Part> parts, bool grouped = false) {
      const bool log_rate = cases.size() % 2 == 0;
      cases.push_back({type, spec, taps, std::move(parts), log_rate, grouped});
    };
    add({2, 4, 16, 32, Blocks}, 4, {{0, 1}, {5, 1}});
    add({2, 4, 16, 32, Blocks}, 4, {{7, 5}, {0, 2}, {2, 1}}, true);
    add({1, 3, 20, 12, Turns}, 3, {{0, 3}, {1, 4}});
    if (extent == Extent::Small) continue;
    // The sizes of Qwen3.5, and of smaller heads.
    for (const DeltaSpec& spec : {DeltaSpec{2, 6, 128, 128, Blocks},
                                  {2, 4, 128, 64, Turns},
                                  {3, 3, 64, 96, Blocks},
                                  {2, 4, 32, 32, Turns},
                                  {4, 8, 16, 128, Blocks}}) {
      const bool grouped = spec.order == Blocks;
      add(spec, 4, {{0, 1}});
      add(spec, 4, {{1, 1}, {2, 1}, {0, 1}, {3, 1}, {100, 1}}, grouped);
      add(spec, 4, {{0, 70}}, grouped);
      add(spec, 4, {{6, 16}, {0, 1}, {3, 17}, {0, 3}, {1, 2}});
    }
    // Chunks of 16 rows: whole ones and parts, after starts that are no multiple of 16.
    add({1, 2, 128, 128, Blocks}, 4, {{5, 16}, {3, 17}, {0, 31}, {21, 64}, {2, 200}});
    add({1, 3, 128, 48, Turns}, 4, {{1, 200}, {0, 16}}, true);
    add({2, 4, 64, 64, Turns}, 4, {{0, 64}, {7, 31}, {33, 33}});
    for (int i = 0; i < 2; ++i) {
      add({1, 2, 128, 64, Blocks}, 4, {{9, 64}, {0, 40}});
      cases.back().strong = true;
    }
    // Sizes for the plain kernels alone.
    add({3, 6, 128, 128, Turns}, 5, {{0, 1}});
    add({2, 2, 48, 40, Blocks}, 4, {{9, 1}, {0, 8}});
    add({1, 2, 7, 130, Blocks}, 2, {{0, 9}, {4, 1}});
    add({2, 4, 24, 5, Turns}, 9, {{3, 2}, {0, 11}, {20, 1}});
  }
  return cases;
}

std::string label(const DeltaCase& c) {
  const DeltaSpec& s = c.spec;
  std::string text = concat(name(c.type), " delta net, ", s.value_heads, " heads, ", s.key_heads,
                            " k, ", s.key_dim, " x ", s.value_dim, ", ", c.taps, " taps, ");
  for (const Part& part : c.parts) {
    text += concat(&part == c.parts.data() ? "" : " + ", part.rows, " after ", part.before);
  }
  return text + (c.grouped ? ", grouped" : "") + (c.strong ? ", strong decay" : "") +
         (s.order == HeadOrder::Turns ? ", turns" : "");
}

DeltaData make_data(const DeltaCase& c, uint64_t seed) {
  const DeltaSpec& s = c.spec;
  const int64_t rows = c.rows(), cols = c.conv_cols();
  Numbers numbers(seed);
  const auto activations = [&](int64_t count, double most) {
    return rounded(c.type, numbers.some(count, -most, most));
  };
  DeltaData data;
  data.mixed = activations(rows * cols, 1.7);
  data.gate = activations(rows * s.values(), 2);
  data.decay = activations(rows * s.value_heads, 2);
  data.beta = activations(rows * s.value_heads, 3);
  data.conv = numbers.some(cols * c.taps, -0.7, 0.7);
  if (c.strong) {
    data.rate.assign(static_cast<size_t>(s.value_heads), c.log_rate ? std::log(20.0f) : -20.0f);
  } else {
    data.rate =
        c.log_rate ? numbers.some(s.value_heads, -3, 1) : numbers.some(s.value_heads, -2, -0.05);
  }
  data.bias = numbers.some(s.value_heads, -1, 1);
  data.norm = numbers.some(s.value_dim, 0.5, 1.5);
  compute_sequences<Net>(c, numbers, data);
  return data;
}

}  // namespace skald::selftest
