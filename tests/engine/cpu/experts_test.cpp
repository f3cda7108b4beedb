// Routed experts: which experts a row chooses, the result against the formula in every format, and
// its independence of other rows and of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>

#include "engine/cpu/executor.h"
#include "engine/cpu/fast_experts.h"
#include "tests/catch.h"
#include "tests/engine/cpu/random_weights.h"
#include "tests/engine/cpu/targets.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Choice {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

Choice choose(std::vector<float> logits, const ExpertsSpec& spec,
              const std::vector<float>& bias = {}) {
  Choice choice;
  choice.experts.resize(static_cast<size_t>(spec.used));
  choice.weights.resize(static_cast<size_t>(spec.used));
  cpu::choose_experts(logits.data(), bias.empty() ? nullptr : bias.data(), spec,
                      choice.experts.data(), choice.weights.data());
  return choice;
}

Choice choose(const std::vector<float>& logits, int used, bool normalized) {
  return choose(logits, {static_cast<int>(logits.size()), used, normalized});
}

// The arguments of a call of the experts kernel, with the decoded values of the weights.
struct Layer {
  ExpertsSpec spec;
  int64_t dim, ffn_dim;
  std::deque<RandomWeights> matrices;
  std::vector<Weight> gate, up, down;
  const RandomWeights* router;
  // A layer without biases leaves all four empty.
  std::vector<float> router_bias, gate_bias, up_bias, down_bias;
  std::vector<float> expert_scale;  // or empty

  Layer(const ExpertsSpec& s, DType type, DType down_type, int64_t d, int64_t f)
      : spec(s), dim(d), ffn_dim(f) {
    router = &matrices.emplace_back(DType::F32, spec.count, dim, 5);
    for (int e = 0; e < spec.count; ++e) {
      const auto seed = static_cast<uint32_t>(e * 3 + 10);
      gate.push_back({"", matrices.emplace_back(type, ffn_dim, dim, seed).view});
      up.push_back({"", matrices.emplace_back(type, ffn_dim, dim, seed + 1).view});
      down.push_back({"", matrices.emplace_back(down_type, dim, ffn_dim, seed + 2).view});
    }
  }

  // Adds biases, whose sums with products are here and there beyond the limits of ClampedSwiglu.
  void add_biases() {
    const auto biases = [&](int64_t count, uint32_t seed, float size) {
      std::vector<float> all = random_floats(count, seed);
      for (float& bias : all) bias *= size;
      return all;
    };
    router_bias = biases(spec.count, 90, 2);
    gate_bias = biases(spec.count * ffn_dim, 91, 9);
    up_bias = biases(spec.count * ffn_dim, 92, 9);
    down_bias = biases(spec.count * dim, 93, 1);
  }

  const std::vector<float>& values(int expert, int part) const {
    return matrices[static_cast<size_t>(1 + 3 * expert + part)].values;
  }

  cpu::KernelOptions options(int threads, int64_t rows, bool exact) const {
    return {exact, threads, rows, std::max(dim, ffn_dim), {spec.count, spec.used, dim, ffn_dim}};
  }

  // `route` is what the router reads; nullptr: `in`. `given` is a choice that is known.
  std::vector<float> run(cpu::Kernels& kernels, const float* in, int64_t rows,
                         const float* route = nullptr, const Choice& given = {}) const {
    std::vector<float> out(static_cast<size_t>(rows * dim) + 1, kNan);
    cpu::ExpertsArgs args = {router->view, gate.data(), up.data(), down.data(),
                             in,           out.data(),  rows,      spec};
    if (!router_bias.empty()) {
      args.router_bias = router_bias.data();
      args.gate_bias = gate_bias.data();
      args.up_bias = up_bias.data();
      args.down_bias = down_bias.data();
    }
    if (!expert_scale.empty()) args.expert_scale = expert_scale.data();
    args.route = route;
    if (!given.experts.empty()) {
      args.chosen = given.experts.data();
      args.weights = given.weights.data();
    }
    kernels.experts(args);
    CHECK(std::isnan(out.back()));
    out.pop_back();
    return out;
  }

  // `biases` has a row for each expert, or none.
  std::vector<double> product(const std::vector<float>& w, const std::vector<double>& x,
                              const std::vector<float>& biases, int expert) const {
    std::vector<double> y(w.size() / x.size());
    for (size_t o = 0; o < y.size(); ++o) {
      if (!biases.empty()) y[o] = biases[static_cast<size_t>(expert) * y.size() + o];
      for (size_t i = 0; i < x.size(); ++i) y[o] += double{w[o * x.size() + i]} * x[i];
    }
    return y;
  }

  // The formula in double precision.
  std::vector<double> expected(const float* in, const float* route) const {
    const std::vector<double> x(in, in + dim), routed(route, route + dim);
    std::vector<double> logits = product(router->values, routed, router_bias, 0);
    for (double& logit : logits) logit *= spec.router_scale;
    std::vector<int> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    double total = 0;
    for (int i = 0; i < (spec.normalized ? spec.used : spec.count); ++i) {
      total += std::exp(logits[static_cast<size_t>(order[static_cast<size_t>(i)])]);
    }
    std::vector<double> sum(x.size());
    for (int i = 0; i < spec.used; ++i) {
      const int e = order[static_cast<size_t>(i)];
      std::vector<double> h = product(values(e, 0), x, gate_bias, e);
      const std::vector<double> u = product(values(e, 1), x, up_bias, e);
      for (size_t k = 0; k < h.size(); ++k) {
        if (spec.activation == Activation::ClampedSwiglu) {
          const double gated = std::min(h[k], 7.0), other = std::clamp(u[k], -7.0, 7.0);
          h[k] = gated / (1 + std::exp(-double{1.702f} * gated)) * (other + 1);
        } else {
          h[k] *= u[k] / (1 + std::exp(-h[k]));
        }
      }
      const std::vector<double> y = product(values(e, 2), h, down_bias, e);
      double weight = std::exp(logits[static_cast<size_t>(e)]) / total;
      if (!expert_scale.empty()) weight *= expert_scale[static_cast<size_t>(e)];
      for (size_t k = 0; k < y.size(); ++k) sum[k] += weight * y[k];
    }
    return sum;
  }

  double error(const std::vector<float>& in, const std::vector<float>& out,
               const std::vector<float>& route = {}) const {
    const float* routes = route.empty() ? in.data() : route.data();
    double distance = 0, size = 0;
    for (size_t r = 0; r < in.size() / static_cast<size_t>(dim); ++r) {
      const size_t at = r * static_cast<size_t>(dim);
      const std::vector<double> right = expected(in.data() + at, routes + at);
      for (size_t k = 0; k < right.size(); ++k) {
        const double d = out[r * static_cast<size_t>(dim) + k] - right[k];
        distance += d * d;
        size += right[k] * right[k];
      }
    }
    return std::sqrt(distance / size);
  }
};

// Rows whose router logits lie far enough apart that rounding does not change the choice.
std::vector<float> rows_for(const Layer& layer, int64_t rows, uint32_t seed) {
  std::vector<float> in = random_floats(rows * layer.dim, seed);
  for (float& x : in) x *= 0.5f;
  return in;
}

}  // namespace

TEST_CASE("the experts with the largest logits are chosen, sorted by number") {
  const std::vector<float> logits = {0.5f, 3, -1, 2, 3, 1};
  for (const bool normalized : {false, true}) {
    const Choice choice = choose(logits, 3, normalized);
    CHECK(choice.experts == std::vector<int32_t>{1, 3, 4});
    double total = 0;
    for (size_t e = 0; e < logits.size(); ++e) {
      if (!normalized || e == 1 || e == 3 || e == 4) total += std::exp(double{logits[e]});
    }
    CHECK(choice.weights[0] == Approx(std::exp(3.0) / total).epsilon(1e-6));
    CHECK(choice.weights[1] == Approx(std::exp(2.0) / total).epsilon(1e-6));
    CHECK(choice.weights[2] == choice.weights[0]);
  }
  CHECK(choose(logits, 6, false).experts == std::vector<int32_t>{0, 1, 2, 3, 4, 5});
  CHECK(choose({7}, 1, false).weights == std::vector<float>{1});
  // The first of equal logits is chosen. Huge logits do not overflow.
  CHECK(choose({1, 1, 1, 1}, 2, true).experts == std::vector<int32_t>{0, 1});
  const Choice huge = choose({-3e38f, 3e38f, 3e38f}, 2, false);
  CHECK(huge.experts == std::vector<int32_t>{1, 2});
  CHECK(huge.weights == std::vector<float>{0.5f, 0.5f});
}

TEST_CASE("a bias changes the choice by sigmoids, and not the weights") {
  const std::vector<float> logits = {0.5f, 3, -1, 2, -2, 1};
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  ExpertsSpec spec{6, 2, true, Activation::Silu, Gating::Sigmoid, 2.5f};
  CHECK(choose(logits, spec).experts == std::vector<int32_t>{1, 3});
  // Expert 4 overtakes all, though its sigmoid is the smallest.
  const std::vector<float> bias = {0, 0, 0, 0, 100, 0};
  const Choice choice = choose(logits, spec, bias);
  CHECK(choice.experts == std::vector<int32_t>{1, 4});
  const double total = sigmoid(3) + sigmoid(-2);
  CHECK(choice.weights[0] == Approx(2.5 * sigmoid(3) / total).epsilon(1e-6));
  CHECK(choice.weights[1] == Approx(2.5 * sigmoid(-2) / total).epsilon(1e-6));
  spec.normalized = false;
  CHECK(choose(logits, spec, bias).weights[1] == Approx(2.5 * sigmoid(-2)).epsilon(1e-6));
}

TEST_CASE("experts are chosen from the groups whose two best experts are best together") {
  // Sigmoids grow with logits. Group 1 has the best expert, group 2 the second best pair.
  const std::vector<float> logits = {1, 1.1f, -9, 5, -9, -8, 2, 2.1f, 0, 0, 0, 0};
  ExpertsSpec spec{12, 3, true, Activation::Silu, Gating::Sigmoid};
  CHECK(choose(logits, spec).experts == std::vector<int32_t>{3, 6, 7});
  spec.groups = 4;
  spec.used_groups = 2;
  // Pairs: 1 and 1.1; 5 and -8; 2 and 2.1; 0 and 0.
  CHECK(choose(logits, spec).experts == std::vector<int32_t>{1, 6, 7});
  spec.used_groups = 1;
  CHECK(choose(logits, spec).experts == std::vector<int32_t>{6, 7, 8});
  // The choice counts, with its bias: group 1 overtakes.
  std::vector<float> bias(12);
  bias[4] = 1;
  CHECK(choose(logits, spec, bias).experts == std::vector<int32_t>{3, 4, 5});
  // Without any number to compare, the earlier groups and experts are chosen.
  CHECK(choose(std::vector<float>(12, kNan), spec).experts.size() == 3);
}

TEST_CASE("with softmax, experts are chosen from the groups whose best experts are best") {
  // The best experts: 1.1 of group 0, 5 of group 1, 2.1 of group 2, 3 of group 3.
  const std::vector<float> logits = {1, 1.1f, -9, 5, -9, -8, 2, 2.1f, 0, 3, -9, 0};
  ExpertsSpec spec{12, 3, false};
  CHECK(choose(logits, spec).experts == std::vector<int32_t>{3, 7, 9});
  spec.groups = 4;
  spec.used_groups = 2;
  const Choice choice = choose(logits, spec);
  CHECK(choice.experts == std::vector<int32_t>{3, 9, 11});
  // A weight's softmax is over all experts.
  float total = 0;
  for (const float logit : logits) total += std::exp(logit);
  CHECK(choice.weights[1] == Approx(std::exp(3.0f) / total).epsilon(1e-6));
}

TEST_CASE("both kernel sets choose from the same groups") {
  const Gating gating = GENERATE(Gating::Sigmoid, Gating::Softmax);
  ExpertsSpec spec{12, 3, true, Activation::Silu, gating, 2};
  spec.groups = 4;
  spec.used_groups = 2;
  const Layer layer(spec, DType::F32, DType::F32, 64, 32);
  const std::vector<float> in = random_floats(20 * 64, 3);
  const auto options = layer.options(2, 20, true);
  const auto fast = cpu::fast_kernels(options), reference = cpu::reference_kernels(options);
  const std::vector<float> a = layer.run(*fast, in.data(), 20);
  const std::vector<float> b = layer.run(*reference, in.data(), 20);
  spec.used_groups = 4;
  const Layer free(spec, DType::F32, DType::F32, 64, 32);
  const std::vector<float> c = free.run(*reference, in.data(), 20);
  size_t changed = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i] == Approx(b[i]).epsilon(1e-4).margin(1e-3));
    changed += std::abs(b[i] - c[i]) > 1e-3;
  }
  CHECK(changed > a.size() / 4);
}

TEST_CASE("with a choice that is known, experts are computed without the router") {
  const ExpertsSpec spec{8, 3, true, Activation::Silu};
  Layer layer(spec, DType::Q8_0, DType::Q8_0, 64, 32);
  layer.add_biases();
  constexpr int64_t kRows = 5;
  const std::vector<float> in = rows_for(layer, kRows, 4);
  Choice all, some, others, none;  // expert -1 is left out
  for (int32_t i = 0; i < kRows * spec.used; ++i) {
    const int32_t expert = i % spec.used + i / spec.used;
    all.experts.push_back(expert);
    some.experts.push_back(i % 2 ? expert : -1);
    others.experts.push_back(i % 2 ? -1 : expert);
    none.experts.push_back(-1);
    all.weights.push_back(0.1f * static_cast<float>(i + 1));
  }
  some.weights = others.weights = none.weights = all.weights;
  const auto options = layer.options(2, kRows, true);
  const auto fast = cpu::fast_kernels(options), reference = cpu::reference_kernels(options);
  const auto run = [&](cpu::Kernels& kernels, const Choice& choice) {
    return layer.run(kernels, in.data(), kRows, nullptr, choice);
  };
  const auto right = run(*reference, all), whole = run(*fast, all);
  const auto a = run(*fast, some), b = run(*reference, others);
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(whole[i] == Approx(right[i]).epsilon(1e-4).margin(1e-3));
    CHECK(a[i] + b[i] == Approx(whole[i]).epsilon(1e-4).margin(1e-3));
  }
  for (const auto& kernels : {fast.get(), reference.get()}) {
    CHECK(run(*kernels, none) == std::vector<float>(whole.size()));
  }
}

TEST_CASE("random logits choose the experts that sorting finds") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const int count = 1 + static_cast<int>(seed * 7 % 130);
    const int used = 1 + static_cast<int>(seed * 5) % count;
    const std::vector<float> logits = random_floats(count, seed);
    std::vector<int32_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    order.resize(static_cast<size_t>(used));
    std::sort(order.begin(), order.end());
    CHECK(choose(logits, used, true).experts == order);
  }
}

TEST_CASE("NaN comes after all other logits, and sigmoids that vanish give no NaN") {
  CHECK(choose({kNan, 1, 2}, 1, true).experts == std::vector<int32_t>{2});
  CHECK(choose({kNan, kNan, 2, 1}, 2, true).experts == std::vector<int32_t>{2, 3});
  const ExpertsSpec spec{3, 2, true, Activation::Silu, Gating::Sigmoid, 1};
  const Choice choice = choose({-200, -200, -200}, spec);
  for (const float weight : choice.weights) CHECK(weight == 0);
}

TEST_CASE("NaN and infinite logits choose valid experts, each once") {
  for (const std::vector<float>& logits :
       {std::vector<float>{kNan, kNan, kNan, kNan}, {1, kNan, 2, kNan}, {kNan, 1, INFINITY, 3}}) {
    for (int used = 1; used <= 4; ++used) {
      const Choice choice = choose(logits, used, true);
      CHECK(std::is_sorted(choice.experts.begin(), choice.experts.end()));
      CHECK(std::adjacent_find(choice.experts.begin(), choice.experts.end()) ==
            choice.experts.end());
      CHECK((choice.experts.front() >= 0 && choice.experts.back() < 4));
    }
  }
}

TEST_CASE("experts of every format agree with double precision") {
  for_each_target([] {
    for (const DTypeInfo& format : all_dtypes()) {
      const int64_t block = format.block_elems;
      const int64_t dim = block == 1 ? 60 : std::max<int64_t>(block, 64);
      const Layer layer({5, 2, block > 32}, format.type, format.type, dim, block == 1 ? 44 : dim);
      for (const bool exact : {false, true}) {
        const auto kernels = cpu::fast_kernels(layer.options(2, 9, exact));
        for (const int64_t rows : {1, 2, 9}) {
          const std::vector<float> in = rows_for(layer, rows, 3);
          INFO(format.name << " exact " << exact << " rows " << rows);
          const bool int8 = !exact && !has_float_weights(format.type);
          CHECK(layer.error(in, layer.run(*kernels, in.data(), rows)) < (int8 ? 0.04 : 2e-5));
        }
      }
    }
  });
}

TEST_CASE("experts with biases and a clamped activation agree with double precision") {
  for_each_target([] {
    for (const DType type : {DType::F32, DType::MXFP4}) {
      Layer layer({5, 2, true, Activation::ClampedSwiglu}, type, type, 96, 64);
      layer.add_biases();
      const auto kernels = cpu::fast_kernels(layer.options(2, 9, true));
      const auto reference = cpu::reference_kernels(layer.options(1, 9, true));
      for (const int64_t rows : {1, 9}) {
        const std::vector<float> in = rows_for(layer, rows, 3);
        INFO(info(type).name << " rows " << rows);
        CHECK(layer.error(in, layer.run(*kernels, in.data(), rows)) < 2e-5);
        CHECK(layer.error(in, layer.run(*reference, in.data(), rows)) < 1e-6);
      }
    }
  });
}

TEST_CASE("a router with another input and a scale, and experts with scales of their own") {
  Layer layer({6, 2, true}, DType::F32, DType::F32, 48, 40);
  layer.spec.router_scale = 0.25f;
  layer.expert_scale = {1, 0.5f, -2, 3, 0.25f, 1.5f};
  constexpr int64_t kRows = 9;
  const std::vector<float> in = rows_for(layer, kRows, 3), route = rows_for(layer, kRows, 8);
  for (const auto& make : {cpu::fast_kernels, cpu::reference_kernels}) {
    const auto kernels = make(layer.options(2, kRows, true));
    const std::vector<float> out = layer.run(*kernels, in.data(), kRows, route.data());
    CHECK(layer.error(in, out, route) < 2e-5);
    CHECK(layer.error(in, out) > 0.1);
    const std::vector<float> row =
        layer.run(*kernels, in.data() + layer.dim, 1, route.data() + layer.dim);
    CHECK(std::equal(row.begin(), row.end(), out.begin() + layer.dim));
  }
}

TEST_CASE("the reference kernels agree with the formula in double precision") {
  for (const bool normalized : {false, true}) {
    for (const DType type : {DType::F16, DType::Q6_K}) {
      const Layer layer({3, 2, normalized}, type, DType::Q8_0, 256, 256);
      const std::vector<float> in = rows_for(layer, 4, 1);
      const auto kernels = cpu::reference_kernels(layer.options(1, 4, true));
      CHECK(layer.error(in, layer.run(*kernels, in.data(), 4)) < 1e-5);
    }
  }
}

TEST_CASE("gate and up may have different formats") {
  Layer layer({4, 2, true}, DType::Q4_0, DType::Q6_K, 256, 256);
  std::deque<RandomWeights> others;
  for (int e = 0; e < 4; ++e) {
    layer.up[static_cast<size_t>(e)].view =
        others.emplace_back(DType::Q5_K, 256, 256, static_cast<uint32_t>(e)).view;
    layer.matrices[static_cast<size_t>(2 + 3 * e)].values = others.back().values;
  }
  const std::vector<float> in = rows_for(layer, 20, 1);
  for (const bool exact : {false, true}) {
    const auto kernels = cpu::fast_kernels(layer.options(2, 20, exact));
    CHECK(layer.error(in, layer.run(*kernels, in.data(), 20)) < (exact ? 2e-5 : 0.04));
  }
}

// 300 rows of 7 experts each are more than the kernel computes at a time.
TEST_CASE("a row's result has the same bits in any call and with any number of threads") {
  constexpr int64_t kRows = 300, kDim = 256;
  for (const DType type : {DType::F32, DType::BF16, DType::Q8_0, DType::Q4_K}) {
    const Layer layer({16, 7, true}, type, type, kDim, kDim);
    const std::vector<float> in = rows_for(layer, kRows, 4);
    for (const bool exact : {false, true}) {
      INFO(name(type) << " exact " << exact);
      const auto one = cpu::fast_kernels(layer.options(1, kRows, exact));
      const std::vector<float> whole = layer.run(*one, in.data(), kRows);
      REQUIRE(cpu::expert_rows(layer.options(1, kRows, exact)) < kRows * 7);
      for (const int threads : {2, 5}) {
        const auto more = cpu::fast_kernels(layer.options(threads, kRows, exact));
        CHECK(layer.run(*more, in.data(), kRows) == whole);
      }
      for (const int64_t part : {1, 2, 31}) {
        const auto small = cpu::fast_kernels(layer.options(1, part, exact));
        for (int64_t r = 0; r + part <= 62; r += part) {
          const std::vector<float> some = layer.run(*small, in.data() + r * kDim, part);
          CHECK(std::memcmp(some.data(), whole.data() + r * kDim, some.size() * sizeof(float)) ==
                0);
        }
      }
    }
  }
}

TEST_CASE("experts that no row chose are not read") {
  Layer layer({6, 2, true}, DType::F32, DType::F32, 32, 16);
  std::vector<float> in(3 * 32, 1.0f);
  std::vector<float> router(6 * 32);
  for (const size_t e : {1, 4}) router[e * 32] = 1;
  std::memcpy(layer.matrices[0].bytes.data() + 1, router.data(), router.size() * sizeof(float));
  const auto kernels = cpu::fast_kernels(layer.options(2, 3, true));
  const std::vector<float> before = layer.run(*kernels, in.data(), 3);
  for (const int e : {0, 2, 3, 5}) {
    layer.gate[static_cast<size_t>(e)].view.data = nullptr;
    layer.up[static_cast<size_t>(e)].view.data = nullptr;
    layer.down[static_cast<size_t>(e)].view.data = nullptr;
  }
  CHECK(layer.run(*kernels, in.data(), 3) == before);
  CHECK(std::isfinite(before[0]));
}

}  // namespace skald::test
