#include "engine/selftest/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/selftest/numbers.h"

namespace skald::selftest {
namespace {

double gated_result(double gate, double up, Activation activation) {
  switch (activation) {
    case Activation::Silu:
      return gate / (1 + std::exp(-gate)) * up;
    case Activation::GeluTanh: {
      const double u = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate);
      return 0.5 * gate * (1 + std::tanh(u)) * up;
    }
    case Activation::ClampedSwiglu: {
      const double limit = kSwigluLimit;
      gate = std::min(gate, limit);
      up = std::clamp(up, -limit, limit);
      return gate / (1 + std::exp(-double{kSwigluSlope} * gate)) * (up + 1);
    }
    case Activation::Sigmoid:
      return up / (1 + std::exp(-gate));
    case Activation::Identity:
      return gate * up;
    case Activation::SquaredRelu:
      return std::max(up, 0.0) * up;  // without a gate
  }
  return 0;
}

ProductData weights_of(DType type, int64_t outs, int64_t ins, uint64_t seed) {
  ProductCase c{type, outs, ins, 1, Ending::Store};
  c.activations = info(type).block_elems > 1 ? DType::BF16 : type;
  return make_data(c, seed);
}

std::vector<float> decoded(const TensorView& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r) {
    info(matrix.type).decode_row(matrix.row(r), values.data() + r * matrix.cols, matrix.cols);
  }
  return values;
}

struct Choice {
  std::vector<int32_t> experts;
  std::vector<double> weights;
  bool clear = true;  // true: rounded logits give the same choice
};

Choice choose(const std::vector<double>& logits, const ExpertsSpec& spec,
              const std::vector<float>& bias) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const bool sigmoid = spec.gating == Gating::Sigmoid;
  const double best = *std::max_element(logits.begin(), logits.end());
  const auto share = [&](int32_t e) {
    const double logit = logits[static_cast<size_t>(e)];
    return sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit - best);
  };
  // What experts are chosen by.
  const auto score = [&](int32_t e) {
    if (!sigmoid) return logits[static_cast<size_t>(e)];
    return share(e) + (bias.empty() ? 0 : bias[static_cast<size_t>(e)]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return score(a) > score(b); });
  Choice choice;
  const auto used = static_cast<size_t>(spec.used);
  if (used < order.size()) {
    const double gap = score(order[used - 1]) - score(order[used]);
    choice.clear = gap == 0 || gap > 1e-4;
  }
  double total = 0;
  for (size_t i = 0; i < (spec.normalized ? used : order.size()); ++i) total += share(order[i]);
  if (sigmoid && !spec.normalized) total = 1;
  choice.experts.assign(order.begin(), order.begin() + spec.used);
  std::sort(choice.experts.begin(), choice.experts.end());
  for (int32_t e : choice.experts) choice.weights.push_back(spec.scale * share(e) / total);
  return choice;
}

void make_router(const ExpertsCase& c, Numbers& numbers, ExpertsData& data) {
  const size_t dim = static_cast<size_t>(c.dim);
  const float size = 1.3f / std::sqrt(static_cast<float>(c.dim));
  for (int64_t i = 0; i < c.dim; ++i) {
    const float x = numbers.spread();
    data.norm_weight.push_back(c.taste == Taste::OneForAll ? std::fabs(x) : x);
  }
  for (int64_t i = 0; i < c.spec.count * c.dim; ++i) data.router.push_back(size * numbers.spread());
  const size_t count = static_cast<size_t>(c.spec.count);
  if (c.taste == Taste::OneForAll) {
    const auto best = data.router.begin() + static_cast<int64_t>(count / 2 * dim);
    std::fill(best, best + c.dim, 4 * size);
  }
  if (c.taste != Taste::Ties) return;
  for (size_t e = 1; e < count; e += 2) {
    const auto from = data.router.begin() + static_cast<int64_t>((e - 1) * dim);
    std::copy(from, from + c.dim, from + c.dim);
  }
}

}  // namespace

std::vector<ExpertsCase> experts_cases(Extent extent) {
  std::vector<ExpertsCase> cases;
  const auto add = [&](ExpertsCase c) {
    c.spec.activation = cases.size() % 3 == 1 ? Activation::GeluTanh : Activation::Silu;
    c.spec.normalized = cases.size() % 2 == 0;
    cases.push_back(c);
  };
  const auto add_biased = [&](ExpertsCase c) {
    add(c);
    cases.back().biased = true;
    if (cases.size() % 2 == 0) {
      cases.back().spec.gating = Gating::Sigmoid;
      cases.back().spec.scale = 1.5f;
    }
    if (cases.size() % 3 != 0) cases.back().spec.activation = Activation::ClampedSwiglu;
  };
  const auto add_own_route = [&](ExpertsCase c) {
    add(c);
    cases.back().own_route = true;
  };
  const auto add_gateless = [&](DType type, int64_t dim, int64_t ffn_dim, bool biased) {
    for (const int rows : {1, 5, 70}) {
      add({type, {6, 2}, dim, ffn_dim, rows});
      cases.back().spec.activation = Activation::SquaredRelu;
      cases.back().gateless = true;
      cases.back().biased = biased;
    }
  };
  // For kernels of one row that take the shared expert as one more chosen one.
  const auto add_shared = [&](ExpertsCase c, Gating gating) {
    for (const Shared shared : {Shared::Plain, Shared::Gated}) {
      add(c);
      cases.back().shared = shared;
      cases.back().spec.gating = gating;
    }
  };
  constexpr DType kPlain[] = {DType::F32, DType::F16, DType::BF16};
  if (extent == Extent::Small) {
    for (const DType type : kPlain) add({type, {5, 2}, 64, 96, 3});
    for (const DType type : kPlain) add({type, {5, 2}, 30, 22, 9});
    add({DType::Q4_K, {4, 2}, 256, 256, 3});
    add({DType::Q8_0, {9, 1}, 96, 64, 70});
    add_biased({DType::MXFP4, {5, 2}, 96, 64, 1});
    add_biased({DType::BF16, {5, 2}, 96, 64, 40});
    for (const int rows : {1, 9}) add_own_route({DType::BF16, {8, 2}, 96, 64, rows});
    for (const DType type : {DType::BF16, DType::Q8_0}) add_gateless(type, 96, 64, false);
    add_shared({DType::Q8_0, {5, 2}, 96, 64, 1}, Gating::Softmax);
    return cases;
  }
  for (const DType type : kPlain) {
    for (const int rows : {1, 2, 3, 7, 8, 9, 17, 65, 150}) {
      add({type, {8, 2}, 128, 224, rows});
      add({type, {5, 3}, 60, 44, rows});  // no fast kernel supports these sizes
      add({type, {33, 1}, 96, 32, rows});
    }
    for (const int rows : {1, 5, 64, 130}) add({type, {128, 8}, 128, 64, rows});
    for (const int rows : {1, 6, 70, 129}) {
      add({type, {8, 2}, 64, 96, rows, Taste::OneForAll});
      add({type, {16, 1}, 64, 96, rows, Taste::OneForAll});
      add({type, {16, 4}, 64, 96, rows, Taste::Ties});
    }
    add({type, {4, 4}, 33, 7, 5});      // all experts chosen, odd sizes
    add({type, {1, 1}, 32, 32, 11});    // a single expert
    add({type, {300, 5}, 64, 32, 40});  // more than the smaller choices of a router hold
    add({type, {1024, 3}, 32, 32, 2});  // the most
    for (const int rows : {1, 2, 8, 40, 130}) {
      add_biased({type, {8, 4}, 96, 160, rows});
      add_biased({type, {5, 2}, 60, 44, rows});
    }
    add({type, {3, 2}, 1056, 2080, 1});
    add({type, {3, 2}, 2080, 1056, 5});
    add({type, {4, 2}, 544, 352, 300});  // tiles of 160 places, half a block of 64 columns
    // Enough rows for routers by tiles of 64 rows, and not a multiple of 64.
    add({type, {5, 2}, 32, 32, 3100});
    add({type, {200, 8}, 64, 32, 1570});
    add_biased({type, {130, 3}, 96, 32, 1570});
    for (const int rows : {1, 3, 9, 150}) add_own_route({type, {8, 2}, 2112, 32, rows});
    add_own_route({type, {128, 8}, 96, 32, 3100});
    add_own_route({type, {5, 2}, 30, 22, 7});
    add_gateless(type, 128, 224, false);
    add_gateless(type, 60, 44, true);
  }
  for (const DTypeInfo& format : all_dtypes()) {
    if (format.block_elems == 1) continue;
    const int64_t block = std::max<int64_t>(format.block_elems, 32);
    for (const int rows : {1, 3, 8, 20, 70}) {
      add({format.type, {6, 2}, 3 * block, block, rows});
      add({format.type, {6, 2}, block, 3 * block, rows});
    }
    add({format.type, {4, 2}, 256, 1280, 70, Taste::OneForAll});
    add({format.type, {8, 8}, 256, 1280, 1});  // so many weight rows that blocks draw them
    if (format.type == DType::Q8_0) {
      // Routers inside the product: several experts of a block, several chunks of a row.
      for (const int count : {140, 300, 512}) add({format.type, {count, 8}, 64, 32, 1});
      for (const int count : {1, 140, 280}) add_biased({format.type, {count, 1}, 96, 32, 1});
      add({format.type, {32, 32}, 64, 32, 1});
      for (const int dim : {2304, 4352}) add({format.type, {40, 2}, dim, 32, 1});
      for (const int count : {40, 280}) add({format.type, {count, 5}, 64, 32, 1, Taste::Ties});
      add_biased({format.type, {8, 8}, 256, 1280, 1});
      for (const int count : {1, 140, 263, 512}) {
        add_shared({format.type, {count, 1}, 64, 32, 1}, Gating::Sigmoid);
      }
      add_shared({format.type, {31, 31}, 2304, 32, 1}, Gating::Softmax);
    }
    add_shared({format.type, {6, 2}, 3 * block, block, 1}, Gating::Sigmoid);
    add_shared({format.type, {6, 3}, 256, 1280, 1}, Gating::Softmax);
    add({format.type, {4, 2}, 512, 256, 300});  // tiles of 160 places
    add_gateless(format.type, 256, 512, format.type == DType::Q8_0);
    if (format.type == DType::Q4_K || format.type == DType::MXFP4) {
      add({format.type, {4, 2}, 256, 256, 400});  // several tiles for each expert
    }
    add({format.type, {4, 2}, 256, 256, 5, Taste::Various, true});
    add({format.type, {4, 2}, 256, 256, 50, Taste::Various, true});
    for (const int rows : {1, 6, 70}) {
      add_biased({format.type, {6, 3}, block, block, rows});
      add_biased({format.type, {4, 2}, 256, 256, rows, Taste::Various, true});
    }
  }
  return cases;
}

ExpertsData make_data(const ExpertsCase& c, uint64_t seed) {
  Numbers numbers(seed);
  ExpertsData data;
  make_router(c, numbers, data);
  const size_t dim = static_cast<size_t>(c.dim), ffn_dim = static_cast<size_t>(c.ffn_dim);
  const size_t count = static_cast<size_t>(c.spec.count);
  const size_t all = count + (c.shared == Shared::None ? 0 : 1);
  std::vector<std::vector<float>> gate, up, down;
  for (size_t e = 0; e < all; ++e) {
    const uint64_t own = seed * 1000003 + e * 3;
    data.gate.push_back(weights_of(c.type, c.ffn_dim, c.dim, own));
    data.up.push_back(weights_of(c.up_type(), c.ffn_dim, c.dim, own + 1));
    data.down.push_back(weights_of(c.type, c.dim, c.ffn_dim, own + 2));
    gate.push_back(decoded(data.gate.back().weight));
    up.push_back(decoded(data.up.back().weight));
    down.push_back(decoded(data.down.back().weight));
  }
  if (c.biased) {
    const auto biases = [&](size_t number, float size) {
      std::vector<float> values(number);
      for (float& value : values) value = size * numbers.spread();
      return values;
    };
    data.router_bias = biases(count, 1);
    if (c.spec.gating == Gating::Sigmoid) data.choice_bias = biases(count, 1);
    // Beyond the limits of ClampedSwiglu here and there.
    data.gate_bias = biases(count * ffn_dim, 4);
    data.up_bias = biases(count * ffn_dim, 4);
    data.down_bias = biases(count * dim, 1);
  }
  for (int64_t i = 0; i < c.dim && c.own_route; ++i) data.route_weight.push_back(numbers.spread());
  for (size_t e = 0; e < count && c.own_route; ++e) {
    data.expert_scale.push_back(0.5f + std::fabs(numbers.spread()));
  }
  const float shared_size = 1.3f / std::sqrt(static_cast<float>(c.dim));
  for (int64_t i = 0; i < c.dim && c.shared == Shared::Gated; ++i) {
    data.shared_gate.push_back(shared_size * numbers.spread());
  }
  const auto bias = [](const std::vector<float>& values, size_t at) {
    return values.empty() ? 0.0 : double{values[at]};
  };
  double squares = 0;
  std::vector<double> normed(dim), routed(dim), logits(count), gated(ffn_dim), sum(dim), sizes(dim);
  for (int r = 0; r < c.rows; ++r) {
    std::vector<float> x(dim);
    Choice choice;
    do {
      for (float& value : x) {
        value = 3 * numbers.spread();
        if (c.taste == Taste::OneForAll) value = std::fabs(value);
      }
      double total = 0;
      for (const float value : x) total += double{value} * value;
      const double scale = 1 / std::sqrt(total / static_cast<double>(dim) + double{kNormEps});
      for (size_t i = 0; i < dim; ++i) {
        normed[i] = x[i] * scale * data.norm_weight[i];
        routed[i] = c.own_route ? x[i] * scale * data.route_weight[i] : normed[i];
      }
      for (size_t e = 0; e < count; ++e) {
        logits[e] =
            dot(data.router.data() + e * dim, routed.data(), dim).value + bias(data.router_bias, e);
      }
      choice = choose(logits, c.spec, data.choice_bias);
    } while (!choice.clear);
    data.x.insert(data.x.end(), x.begin(), x.end());
    data.chosen.insert(data.chosen.end(), choice.experts.begin(), choice.experts.end());
    if (c.shared != Shared::None) {
      choice.experts.push_back(c.spec.count);
      const double logit =
          c.shared == Shared::Gated ? dot(data.shared_gate.data(), normed.data(), dim).value : 0;
      choice.weights.push_back(c.shared == Shared::Gated ? 1 / (1 + std::exp(-logit)) : 1);
    }
    std::fill(sum.begin(), sum.end(), 0);
    std::fill(sizes.begin(), sizes.end(), 0);
    for (size_t i = 0; i < choice.experts.size(); ++i) {
      const auto e = static_cast<size_t>(choice.experts[i]);
      for (size_t f = 0; f < ffn_dim; ++f) {
        const size_t own = e * ffn_dim + f;
        const double g = dot(gate[e].data() + f * dim, normed.data(), dim).value;
        const double u = dot(up[e].data() + f * dim, normed.data(), dim).value;
        gated[f] = gated_result(g + bias(data.gate_bias, own), u + bias(data.up_bias, own),
                                c.spec.activation);
      }
      const double weight =
          double{kScale} * choice.weights[i] * (c.own_route ? data.expert_scale[e] : 1);
      for (size_t k = 0; k < dim; ++k) {
        const Dot y = dot(down[e].data() + k * ffn_dim, gated.data(), ffn_dim);
        const double added = bias(data.down_bias, e * dim + k);
        sum[k] += weight * (y.value + added);
        sizes[k] += weight * weight * (y.squares + added * added);
      }
    }
    for (size_t k = 0; k < dim; ++k) {
      data.expected.values.push_back(x[k] + sum[k]);
      squares += double{x[k]} * x[k] + sizes[k];
    }
  }
  data.expected.size = std::sqrt(squares);
  // Roundings: normed activations; gate and up if they are separate; the gated product; the weights
  // of block formats. The activation's slope may be steep, and small cases need an allowance for
  // chance.
  const double unit = unit_roundoff(c.activations());
  // The weights of a block may share an offset, so an activation's error counts once per block.
  const double results = static_cast<double>(c.rows * std::min(c.dim, c.ffn_dim));
  const double few = std::sqrt(results / info(c.type).block_elems);
  const double sums = c.activations() == DType::F32 ? 3e-6 : 2e-5;
  const double slope = c.gateless ? 2 : 1;  // a square doubles relative errors
  data.expected.bound = slope * (sums + 0.5 * unit * std::sqrt(10.0) *
                                            (1 + (info(c.type).block_elems > 1 ? 3 : 6) / few));
  return data;
}

std::string label(const ExpertsCase& c) {
  constexpr const char* kTastes[] = {"", ", one for all", ", ties"};
  return concat(name(c.type), " ", c.spec.used, " of ", c.spec.count, " experts [", c.ffn_dim, ", ",
                c.dim, "] x ", c.rows, " rows", kTastes[static_cast<size_t>(c.taste)],
                c.apart ? ", up apart" : "", c.biased ? ", biases" : "",
                c.own_route ? ", a norm for the router" : "", c.gateless ? ", no gate" : "",
                c.shared == Shared::Plain   ? ", a shared expert"
                : c.shared == Shared::Gated ? ", a shared expert with a gate"
                                            : "",
                c.spec.activation == Activation::ClampedSwiglu ? ", clamped" : "",
                c.spec.gating == Gating::Sigmoid ? ", sigmoids" : "");
}

}  // namespace skald::selftest
