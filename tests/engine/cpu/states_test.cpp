// The ops with a recurrent state agree with their formulas on both kernel sets, at sizes that no
// vector divides, and give the same bits however a sequence is cut into calls.
#include <algorithm>
#include <cmath>
#include <random>

#include "engine/cpu/kernels.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

using namespace cpu;
using Floats = std::vector<float>;
using States = std::vector<Floats>;  // one for each sequence

Floats normal_floats(int64_t count, uint64_t seed, float size = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, size);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// States as slots hold them that other sequences have used.
States used_states(int count, int64_t floats) {
  States states;
  for (int i = 0; i < count; ++i) {
    states.push_back(normal_floats(floats, 100 + static_cast<uint64_t>(i), 50));
  }
  return states;
}

double largest_error(const Floats& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(std::isfinite(got[i]));
    worst = std::max(worst, std::abs(got[i] - expected[i]) / (1 + std::abs(expected[i])));
  }
  return worst;
}

std::unique_ptr<Kernels> kernels_of(bool fast) {
  KernelOptions options;
  options.threads = 3;
  options.max_rows = 64;
  return fast ? fast_kernels(options) : reference_kernels(options);
}

// A row's place: which sequence, and where in it.
struct Place {
  size_t sequence;
  int64_t position;
};

std::vector<Place> places_of(size_t sequence, int64_t first, int64_t count) {
  std::vector<Place> places;
  places.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) places.push_back({sequence, first + i});
  return places;
}

std::vector<StateRow> rows_at(const std::vector<Place>& places, States& states) {
  std::vector<StateRow> rows;
  rows.reserve(places.size());
  for (const Place& place : places) rows.push_back({states[place.sequence].data(), place.position});
  return rows;
}

struct ConvCase {
  int64_t cols;
  int taps;
  Floats in, weight;
  Activation activation = Activation::Silu;
  Floats bias = {};  // empty: none

  // Computes rows from `first` on.
  Floats run(Kernels& kernels, const std::vector<Place>& places, int64_t first,
             States& states) const {
    Floats out(places.size() * static_cast<size_t>(cols), -99);
    const auto at = rows_at(places, states);
    kernels.causal_conv({in.data() + first * cols, weight.data(), out.data(), at.data(),
                         std::ssize(places), cols, taps, activation,
                         bias.empty() ? nullptr : bias.data()});
    return out;
  }

  std::vector<double> expected(int64_t rows) const {
    std::vector<double> out;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t col = 0; col < cols; ++col) {
        double sum = bias.empty() ? 0 : double{bias[static_cast<size_t>(col)]};
        for (int t = 0; t < taps; ++t) {
          const int64_t from = r - (taps - 1) + t;
          if (from < 0) continue;
          sum += double{weight[static_cast<size_t>(col * taps + t)]} *
                 in[static_cast<size_t>(from * cols + col)];
        }
        out.push_back(activation == Activation::Silu ? sum / (1 + std::exp(-sum)) : sum);
      }
    }
    return out;
  }
};

struct DeltaCase {
  DeltaSpec spec;
  Floats in, decay, beta, rate, bias;

  DeltaCase(const DeltaSpec& s, int64_t rows)
      : spec(s),
        in(normal_floats(rows * (2 * s.keys() + s.values()), 1)),
        decay(normal_floats(rows * s.value_heads, 2)),
        beta(normal_floats(rows * s.value_heads, 3)),
        rate(normal_floats(s.value_heads, 4)),
        bias(normal_floats(s.value_heads, 5)) {
    for (float& value : rate) value = -std::exp(value);
  }

  Floats run(Kernels& kernels, const std::vector<Place>& places, int64_t first,
             States& states) const {
    Floats out(places.size() * static_cast<size_t>(spec.values()), -99);
    const auto at = rows_at(places, states);
    const int64_t width = 2 * spec.keys() + spec.values(), heads = spec.value_heads;
    kernels.delta_net({in.data() + first * width, decay.data() + first * heads,
                       beta.data() + first * heads, rate.data(), bias.data(), out.data(), at.data(),
                       std::ssize(places), spec});
    return out;
  }

  // One sequence, in double.
  std::vector<double> expected(int64_t rows) const {
    std::vector<double> out, states(static_cast<size_t>(spec.state_floats()));
    for (int64_t r = 0; r < rows; ++r) {
      for (int h = 0; h < spec.value_heads; ++h) {
        step(r, h, states.data() + h * spec.key_dim * spec.value_dim, out);
      }
    }
    return out;
  }

 private:
  std::vector<double> of_length_one(const float* from) const {
    double squares = 1e-6;
    for (int i = 0; i < spec.key_dim; ++i) squares += double{from[i]} * from[i];
    std::vector<double> to(from, from + spec.key_dim);
    for (double& x : to) x /= std::sqrt(squares);
    return to;
  }

  void step(int64_t row, int head, double* state, std::vector<double>& out) const {
    const int dk = spec.key_dim, dv = spec.value_dim;
    const int key_head = spec.order == HeadOrder::Blocks
                             ? head / (spec.value_heads / spec.key_heads)
                             : head % spec.key_heads;
    const float* queries = in.data() + row * (2 * spec.keys() + spec.values());
    const auto q = of_length_one(queries + key_head * dk);
    const auto k = of_length_one(queries + spec.keys() + key_head * dk);
    const float* value = queries + 2 * spec.keys() + head * dv;
    const size_t at = static_cast<size_t>(row * spec.value_heads + head);
    const size_t h = static_cast<size_t>(head);
    const double kept = std::exp(rate[h] * std::log1p(std::exp(double{decay[at]} + bias[h])));
    const double corrected = 1 / (1 + std::exp(-double{beta[at]}));
    for (int i = 0; i < dk * dv; ++i) state[i] *= kept;
    for (int j = 0; j < dv; ++j) {
      double held = 0, sum = 0;
      for (int i = 0; i < dk; ++i) held += state[i * dv + j] * k[static_cast<size_t>(i)];
      const double delta = (value[j] - held) * corrected;
      for (int i = 0; i < dk; ++i) {
        state[i * dv + j] += k[static_cast<size_t>(i)] * delta;
        sum += state[i * dv + j] * q[static_cast<size_t>(i)];
      }
      out.push_back(sum / std::sqrt(static_cast<double>(dk)));
    }
  }
};

struct SpaceCase {
  SpaceSpec spec;
  Floats in, steps, rate, bias, skip;

  SpaceCase(const SpaceSpec& s, int64_t rows)
      : spec(s),
        in(normal_floats(rows * s.inputs(), 1)),
        steps(normal_floats(rows * s.heads, 2)),
        rate(normal_floats(s.heads, 3)),
        bias(normal_floats(s.heads, 4)),
        skip(normal_floats(s.heads, 5)) {
    for (float& value : rate) value = -std::exp(value);
  }

  Floats run(Kernels& kernels, const std::vector<Place>& places, int64_t first,
             States& states) const {
    Floats out(places.size() * static_cast<size_t>(spec.values()), -99);
    const auto at = rows_at(places, states);
    kernels.state_space({in.data() + first * spec.inputs(), steps.data() + first * spec.heads,
                         rate.data(), bias.data(), skip.data(), out.data(), at.data(),
                         std::ssize(places), spec});
    return out;
  }

  // One sequence, in double.
  std::vector<double> expected(int64_t rows) const {
    std::vector<double> out, states(static_cast<size_t>(spec.state_floats()));
    for (int64_t r = 0; r < rows; ++r) {
      for (int h = 0; h < spec.heads; ++h) {
        const float* const row = in.data() + r * spec.inputs();
        const int64_t group = h / (spec.heads / spec.groups);
        const float* const key = row + spec.values() + group * spec.state_dim;
        const size_t head = static_cast<size_t>(h);
        const double raw = double{steps[static_cast<size_t>(r * spec.heads + h)]} + bias[head];
        const double step = std::min(std::max(std::log1p(std::exp(raw)), double{spec.least_step}),
                                     double{spec.most_step});
        for (int j = 0; j < spec.head_dim; ++j) {
          const double value = row[h * spec.head_dim + j];
          double sum = skip[head] * value;
          for (int i = 0; i < spec.state_dim; ++i) {
            double& number =
                states[static_cast<size_t>((h * spec.head_dim + j) * spec.state_dim + i)];
            number = std::exp(rate[head] * step) * number + step * value * key[i];
            sum += number * key[spec.keys() + i];
          }
          out.push_back(sum);
        }
      }
    }
    return out;
  }
};

Floats part_of(const Floats& all, size_t first, size_t last) {
  return {all.begin() + static_cast<std::ptrdiff_t>(first),
          all.begin() + static_cast<std::ptrdiff_t>(last)};
}

}  // namespace

TEST_CASE("a convolution sums the last rows of its sequence, and zeros before the first") {
  const bool fast = GENERATE(true, false);
  const auto activation = GENERATE(Activation::Silu, Activation::Identity);
  const auto kernels = kernels_of(fast);
  constexpr int64_t kRows = 9;
  for (const int64_t cols : {1, 17, 64, 20000}) {  // the last are shared by threads
    for (const int taps : {2, 4, 7}) {
      CAPTURE(fast, cols, taps);
      const ConvCase c = {cols,
                          taps,
                          normal_floats(kRows * cols, 1),
                          normal_floats(cols * taps, 2),
                          activation,
                          taps == 4 ? normal_floats(cols, 3) : Floats()};
      States states = used_states(1, (taps - 1) * cols);
      const Floats out = c.run(*kernels, places_of(0, 0, kRows), 0, states);
      CHECK(largest_error(out, c.expected(kRows)) < 2e-6);
    }
  }
}

TEST_CASE("a delta net follows its formula in both orders of heads") {
  const bool fast = GENERATE(true, false);
  const auto order = GENERATE(HeadOrder::Blocks, HeadOrder::Turns);
  const auto kernels = kernels_of(fast);
  constexpr int64_t kRows = 40;
  for (DeltaSpec spec : {DeltaSpec{1, 1, 1, 1}, DeltaSpec{2, 4, 16, 32}, DeltaSpec{2, 6, 31, 33},
                         DeltaSpec{3, 3, 128, 128}, DeltaSpec{1, 3, 20, 100}}) {
    spec.order = order;
    CAPTURE(fast, spec.key_heads, spec.value_heads, spec.key_dim, spec.value_dim);
    const DeltaCase c(spec, kRows);
    States states = used_states(1, spec.state_floats());
    const Floats out = c.run(*kernels, places_of(0, 0, kRows), 0, states);
    CHECK(largest_error(out, c.expected(kRows)) < 2e-5);
  }
}

TEST_CASE("states give the same bits however a sequence is cut, and beside whatever neighbours") {
  const bool fast = GENERATE(true, false);
  const auto kernels = kernels_of(fast);
  constexpr int64_t kRows = 30;
  const DeltaSpec spec = {2, 4, 24, 40};
  const DeltaCase net(spec, kRows);
  const ConvCase conv = {50, 4, normal_floats(kRows * 50, 1), normal_floats(200, 2)};
  States net_states = used_states(2, spec.state_floats()), conv_states = used_states(2, 150);
  const Floats whole_net = net.run(*kernels, places_of(0, 0, kRows), 0, net_states);
  const Floats whole_conv = conv.run(*kernels, places_of(0, 0, kRows), 0, conv_states);
  const Floats after_net = net_states[0], after_conv = conv_states[0];
  for (const int64_t chunk : {1, 2, 7, 29}) {
    CAPTURE(fast, chunk);
    Floats out_net, out_conv;
    for (int64_t at = 0; at < kRows; at += chunk) {
      const auto places = places_of(0, at, std::min(chunk, kRows - at));
      const Floats a = net.run(*kernels, places, at, net_states);
      const Floats b = conv.run(*kernels, places, at, conv_states);
      out_net.insert(out_net.end(), a.begin(), a.end());
      out_conv.insert(out_conv.end(), b.begin(), b.end());
    }
    CHECK(out_net == whole_net);
    CHECK(out_conv == whole_conv);
    CHECK(net_states[0] == after_net);
    CHECK(conv_states[0] == after_conv);
  }
  // Rows 0 to 9 of the sequence, and rows 10 to 29 as a sequence of their own, in one call.
  auto places = places_of(0, 0, 10);
  for (const Place& place : places_of(1, 0, 20)) places.push_back(place);
  const Floats both = net.run(*kernels, places, 0, net_states);
  const size_t border = 10 * static_cast<size_t>(spec.values());
  CHECK(part_of(both, 0, border) == part_of(whole_net, 0, border));
  States alone = used_states(1, spec.state_floats());
  CHECK(part_of(both, border, both.size()) == net.run(*kernels, places_of(0, 0, 20), 10, alone));
}

TEST_CASE("a state space follows its formula, also where steps are bounded") {
  const bool fast = GENERATE(true, false);
  const auto kernels = kernels_of(fast);
  constexpr int64_t kRows = 40;
  for (SpaceSpec spec : {SpaceSpec{1, 1, 1, 1}, SpaceSpec{4, 16, 2, 32}, SpaceSpec{6, 13, 3, 31},
                         SpaceSpec{3, 64, 1, 128}, SpaceSpec{2, 6, 2, 100, 0.5f, 2}}) {
    CAPTURE(fast, spec.heads, spec.head_dim, spec.state_dim);
    const SpaceCase space(spec, kRows);
    States states = used_states(1, spec.state_floats());
    const Floats whole = space.run(*kernels, places_of(0, 0, kRows), 0, states);
    CHECK(largest_error(whole, space.expected(kRows)) < 1e-5);
    // Calls of 7 rows give the same, and so do two sequences in one call.
    const Floats after = states[0];
    Floats parts;
    for (int64_t at = 0; at < kRows; at += 7) {
      const Floats part =
          space.run(*kernels, places_of(0, at, std::min<int64_t>(7, kRows - at)), at, states);
      parts.insert(parts.end(), part.begin(), part.end());
    }
    CHECK(parts == whole);
    CHECK(states[0] == after);
    States two = used_states(2, spec.state_floats());
    auto places = places_of(0, 0, 10);
    for (const Place& place : places_of(1, 0, 20)) places.push_back(place);
    const Floats both = space.run(*kernels, places, 0, two);
    const size_t border = 10 * static_cast<size_t>(spec.values());
    CHECK(part_of(both, 0, border) == part_of(whole, 0, border));
    States alone = used_states(1, spec.state_floats());
    CHECK(part_of(both, border, both.size()) ==
          space.run(*kernels, places_of(0, 0, 20), 10, alone));
  }
}

TEST_CASE("a norm may have weights of its own for each head") {
  const auto kernels = kernels_of(GENERATE(true, false));
  constexpr int64_t kRows = 6, kDim = 19, kHeads = 3;
  const Floats in = normal_floats(kRows * kDim, 1), weights = normal_floats(kHeads * kDim, 2);
  Floats out(in.size()), one(static_cast<size_t>(kDim));
  kernels->rms_norm({in.data(), weights.data(), out.data(), kRows, kDim, 1e-5f, kHeads});
  for (int64_t r = 0; r < kRows; ++r) {
    const float* const weight = weights.data() + r % kHeads * kDim;
    kernels->rms_norm({in.data() + r * kDim, weight, one.data(), 1, kDim, 1e-5f});
    CHECK(std::equal(one.begin(), one.end(), out.begin() + r * kDim));
  }
}

TEST_CASE("a part of each head is copied to its place, and nothing else is written") {
  const auto kernels = kernels_of(GENERATE(true, false));
  constexpr int64_t kRows = 3, kIn = 20, kOut = 13;
  const Floats in = normal_floats(kRows * kIn, 1);
  Floats out(kRows * kOut, -1);
  HeadPart part{};
  part.heads = 4, part.cols = 2, part.first = 3, part.to = 5;  // of heads of 5 columns
  kernels->head_part({in.data(), out.data(), kRows, kIn, kOut, part});
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kOut; ++c) {
      const int64_t k = c - 5, head = k / 2;
      const float expected = k < 0 ? -1 : in[static_cast<size_t>(r * kIn + head * 5 + 3 + k % 2)];
      CHECK(out[static_cast<size_t>(r * kOut + c)] == expected);
    }
  }
}

}  // namespace skald::test
