#include "engine/selftest/spaces.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/selftest/state_data.h"

namespace skald::selftest {
namespace {

// One sequence, in double precision.
class Space {
 public:
  Space(const SpaceCase& c, const SpaceData& data, size_t part)
      : c_(c), data_(data), matrix_(data.matrices[part].begin(), data.matrices[part].end()) {
    inputs_ = data.inputs[part];
    if (c.parts[part].before > 0) return;
    std::fill(matrix_.begin(), matrix_.end(), 0);
    std::fill(inputs_.begin(), inputs_.end(), 0.0f);
  }

  // Appends the results of row `row` of the step to `out`.
  void step(int64_t row, std::vector<double>& out) {
    const SpaceSpec& s = c_.spec;
    const auto cols = static_cast<size_t>(s.inputs());
    const float* mixed = data_.mixed.data() + row * s.inputs();
    inputs_.insert(inputs_.end(), mixed, mixed + cols);
    std::vector<double> convolved(cols);
    for (size_t i = 0; i < cols; ++i) {
      double sum = data_.conv_bias.empty() ? 0 : data_.conv_bias[i];
      for (int t = 0; t < c_.taps; ++t) {
        sum += double{data_.conv[i * static_cast<size_t>(c_.taps) + static_cast<size_t>(t)]} *
               inputs_[static_cast<size_t>(t) * cols + i];
      }
      convolved[i] = silu(sum);
    }
    inputs_.erase(inputs_.begin(), inputs_.begin() + static_cast<int64_t>(cols));
    std::vector<double> gated, terms;  // terms: squares of what each result is the sum of
    for (int head = 0; head < s.heads; ++head) head_step(row, head, convolved, gated, terms);
    const size_t width = gated.size() / static_cast<size_t>(s.groups);
    for (size_t first = 0; first < gated.size(); first += width) {
      double squares = 0;
      for (size_t i = first; i < first + width; ++i) squares += gated[i] * gated[i];
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + kNormEps);
      for (size_t i = first; i < first + width; ++i) {
        const double factor = scale * data_.norm[i];
        out.push_back(gated[i] * factor);
        enlarged_ += std::max(gated[i] * gated[i], terms[i]) * factor * factor;
      }
    }
  }

  // The sum of the squares of the terms that the results are sums of: a query across its keys gives
  // a small sum of large terms.
  double enlarged() const { return enlarged_; }
  const std::vector<double>& matrix() const { return matrix_; }
  const std::vector<float>& inputs() const { return inputs_; }

 private:
  void head_step(int64_t row, int head, const std::vector<double>& convolved,
                 std::vector<double>& gated, std::vector<double>& terms) {
    const SpaceSpec& s = c_.spec;
    const auto h = static_cast<size_t>(head);
    const double* value = convolved.data() + int64_t{head} * s.head_dim;
    const double* key =
        convolved.data() + s.values() + int64_t{head / (s.heads / s.groups)} * s.state_dim;
    const double* query = key + s.keys();
    const double raw =
        double{data_.step[static_cast<size_t>(row * s.heads + head)]} + data_.bias[h];
    const double step =
        std::clamp(std::log1p(std::exp(raw)), double{s.least_step}, double{s.most_step});
    const double rate = c_.log_rate ? -std::exp(double{data_.rate[h]}) : double{data_.rate[h]};
    const double kept = std::exp(rate * step);
    const float* gate = data_.gate.data() + row * s.values() + int64_t{head} * s.head_dim;
    for (int j = 0; j < s.head_dim; ++j) {
      double* own = matrix_.data() + (int64_t{head} * s.head_dim + j) * s.state_dim;
      const double skipped = data_.skip[h] * value[j];
      double sum = skipped, squares = skipped * skipped;
      for (int i = 0; i < s.state_dim; ++i) {
        own[i] = kept * own[i] + step * value[j] * key[i];
        const double term = own[i] * query[i];
        sum += term;
        squares += term * term;
      }
      const double factor = silu(gate[j]);
      gated.push_back(sum * factor);
      terms.push_back(squares * factor * factor);
    }
  }

  const SpaceCase& c_;
  const SpaceData& data_;
  std::vector<double> matrix_;
  std::vector<float> inputs_;
  double enlarged_ = 0;
};

}  // namespace

int SpaceCase::rows() const {
  int sum = 0;
  for (const Part& part : parts) sum += part.rows;
  return sum;
}

bool SpaceCase::one_row_each() const {
  return std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.rows == 1; });
}

std::vector<SpaceCase> space_cases(Extent extent) {
  std::vector<SpaceCase> cases;
  for (const DType type : {DType::F32, DType::F16, DType::BF16}) {
    const auto add = [&](SpaceSpec spec, int taps, std::vector<Part> parts) {
      const size_t number = cases.size();
      cases.push_back({type, spec, taps, std::move(parts), number % 2 == 0, number % 3 != 0});
    };
    add({4, 32, 2, 64}, 4, {{0, 1}, {5, 1}});
    add({4, 32, 2, 64}, 4, {{7, 5}, {0, 2}, {2, 1}});
    add({3, 12, 1, 20, 0.3f, 0.9f}, 3, {{0, 3}, {1, 4}});
    if (extent == Extent::Small) continue;
    // The sizes of Nemotron-H and Granite 4, and others.
    for (const SpaceSpec& spec : {SpaceSpec{6, 64, 2, 128},
                                  {4, 64, 1, 128, 0.001f},
                                  {2, 64, 1, 256},
                                  {3, 96, 3, 64, 0, 0.7f}}) {
      add(spec, 4, {{0, 1}});
      add(spec, 4, {{1, 1}, {2, 1}, {0, 1}, {3, 1}, {100, 1}});
      add(spec, 4, {{0, 70}});
      add(spec, 4, {{6, 16}, {0, 1}, {3, 17}, {0, 3}, {1, 2}});
    }
    // Chunks: whole ones and parts, after starts that are no multiple of their length.
    add({2, 64, 1, 128}, 4, {{5, 64}, {3, 65}, {0, 127}, {21, 128}, {2, 200}});
    add({2, 64, 2, 256}, 4, {{1, 200}, {0, 16}});
    for (int i = 0; i < 2; ++i) {
      add({2, 64, 1, 128}, 4, {{9, 130}, {0, 40}});
      cases.back().strong = true;
    }
    // Sizes for the plain kernels alone.
    add({6, 16, 1, 16}, 4, {{0, 1}});
    add({4, 40, 2, 48}, 4, {{9, 1}, {0, 8}});
    add({2, 130, 1, 7}, 2, {{0, 9}, {4, 1}});
    add({4, 5, 2, 24}, 9, {{3, 2}, {0, 11}, {20, 1}});
    // Groups of more numbers than space_finish keeps in registers.
    add({2, 5000, 1, 16}, 4, {{0, 2}});
    add({1, 2501, 1, 16}, 4, {{0, 2}});
  }
  return cases;
}

std::string label(const SpaceCase& c) {
  const SpaceSpec& s = c.spec;
  std::string text = concat(name(c.type), " state space, ", s.heads, " heads, ", s.groups, " k, ",
                            s.head_dim, " x ", s.state_dim, ", ", c.taps, " taps, ");
  for (const Part& part : c.parts) {
    text += concat(&part == c.parts.data() ? "" : " + ", part.rows, " after ", part.before);
  }
  return text + (c.biased ? ", bias" : "") + (c.strong ? ", strong decay" : "");
}

SpaceData make_data(const SpaceCase& c, uint64_t seed) {
  const SpaceSpec& s = c.spec;
  const int64_t rows = c.rows(), cols = s.inputs();
  Numbers numbers(seed);
  const auto activations = [&](int64_t count, double most) {
    return rounded(c.type, numbers.some(count, -most, most));
  };
  SpaceData data;
  data.mixed = activations(rows * cols, 1.7);
  data.gate = activations(rows * s.values(), 2);
  data.step = activations(rows * s.heads, 2);
  data.conv = numbers.some(cols * c.taps, -0.7, 0.7);
  if (c.biased) data.conv_bias = numbers.some(cols, -0.5, 0.5);
  if (c.strong) {
    data.rate.assign(static_cast<size_t>(s.heads), c.log_rate ? std::log(20.0f) : -20.0f);
  } else {
    data.rate = c.log_rate ? numbers.some(s.heads, -3, 1) : numbers.some(s.heads, -2, -0.05);
  }
  data.bias = numbers.some(s.heads, -1, 1);
  data.skip = numbers.some(s.heads, -1, 1);
  data.norm = numbers.some(s.values(), 0.5, 1.5);
  compute_sequences<Space>(c, numbers, data);
  return data;
}

}  // namespace skald::selftest
