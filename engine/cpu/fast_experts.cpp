#include "engine/cpu/fast_experts.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/cpu/fast_share.h"
#include "engine/cpu/product_observer.h"

namespace skald::cpu {
namespace {

constexpr int64_t kFloat = sizeof(float);

int64_t places(const KernelOptions& options) { return options.max_rows * options.experts.used; }

// ExpertsSpec says what the score of a group is.
template <class Score>
float group_score(const ExpertsSpec& spec, int group, const Score& score) {
  const int size = spec.count / spec.groups;
  float first = -INFINITY, second = -INFINITY;
  for (int32_t e = group * size; e < (group + 1) * size; ++e) {
    const float one = score(e);
    if (one > first) {
      second = first;
      first = one;
    } else if (one > second) {
      second = one;
    }
  }
  return spec.gating == Gating::Sigmoid && size > 1 ? first + second : first;
}

// True if a group is one of the used_groups best. Of equal groups, the earlier one counts as
// better.
template <class Score>
bool is_used(const ExpertsSpec& spec, int group, const Score& score) {
  const float own = group_score(spec, group, score);
  int better = 0;
  for (int g = 0; g < spec.groups; ++g) {
    const float other = group_score(spec, g, score);
    better += other > own || (other == own && g < group);
  }
  return better < spec.used_groups;
}

// Chooses the `used` experts with the largest score(expert), best expert first.
template <class Score>
void choose_best(const ExpertsSpec& spec, const Score& score, int32_t* experts) {
  // Sorted insertion; of equal scores the earlier expert stays in front. NaN comes last.
  const auto better = [&](int32_t e, int32_t than) {
    return score(e) > score(than) || (std::isnan(score(than)) && !std::isnan(score(e)));
  };
  const int group_size = spec.count / spec.groups;
  int have = 0;
  for (int32_t e = 0; e < spec.count; ++e) {
    const bool groups = spec.used_groups < spec.groups;
    if (groups && e % group_size == 0 && !is_used(spec, e / group_size, score)) {
      e += group_size - 1;
      continue;
    }
    int at = have;
    while (at > 0 && better(e, experts[at - 1])) --at;
    if (at == spec.used) continue;
    have = std::min(have + 1, spec.used);
    for (int i = have - 1; i > at; --i) experts[i] = experts[i - 1];
    experts[at] = e;
  }
}

}  // namespace

void choose_experts(float* logits, const float* bias, const ExpertsSpec& spec, int32_t* experts,
                    float* weights) {
  if (spec.router_scale != 1) {
    for (int e = 0; e < spec.count; ++e) logits[e] *= spec.router_scale;
  }
  float best = 0;
  if (spec.gating == Gating::Softmax) {
    choose_best(
        spec, [&](int32_t e) { return logits[e]; }, experts);
    best = logits[experts[0]];
  } else {
    for (int e = 0; e < spec.count; ++e) logits[e] = 1 / (1 + std::exp(-logits[e]));
    choose_best(
        spec, [&](int32_t e) { return bias ? logits[e] + bias[e] : logits[e]; }, experts);
  }
  const auto share = [&](int32_t e) {
    return spec.gating == Gating::Softmax ? std::exp(logits[e] - best) : logits[e];
  };
  std::sort(experts, experts + spec.used);
  float total = 0;
  for (int i = 0; i < spec.used; ++i) {
    weights[i] = share(experts[i]);
    total += weights[i];
  }
  if (spec.gating == Gating::Sigmoid) total = spec.normalized ? total + 1e-20f : 1;
  if (!spec.normalized && spec.gating == Gating::Softmax) {
    total = 0;
    for (int e = 0; e < spec.count; ++e) total += share(e);
  }
  for (int i = 0; i < spec.used; ++i) weights[i] *= spec.scale / total;
}

int64_t expert_rows(const KernelOptions& options) {
  constexpr int64_t kEnough = 128;  // enough for decode steps of a few sequences
  return std::max(options.max_rows, std::min(places(options), kEnough));
}

int64_t experts_bytes(const KernelOptions& options) {
  const ExpertsSize& size = options.experts;
  if (size.count == 0) return 0;
  constexpr int64_t kBytesPerPlace = 4 + 4 + 8 + 4,
                    kBytesPerExpert = 2 * 8 + 2 * sizeof(LinearArgs);
  return expert_rows(options) * (size.dim + 2 * size.ffn_dim) * kFloat +
         options.max_rows * size.count * kFloat + places(options) * kBytesPerPlace +
         size.count * kBytesPerExpert;
}

FastExperts::FastExperts(const KernelOptions& options, ThreadPool& pool, FastLinear& linear)
    : options_(options),
      most_(expert_rows(options)),
      pool_(pool),
      linear_(linear),
      pointwise_(pointwise_kernels()) {
  const ExpertsSize& size = options.experts;
  if (size.count == 0) return;
  const auto floats = [](int64_t count) { return Buffer(count * kFloat, "experts' rows"); };
  logits_ = floats(options.max_rows * size.count);
  x_ = floats(most_ * size.dim);
  gate_ = floats(most_ * size.ffn_dim);
  up_ = floats(most_ * size.ffn_dim);
  const auto all = static_cast<size_t>(places(options)), count = static_cast<size_t>(size.count);
  chosen_.resize(all);
  weights_.resize(all);
  places_.resize(all);
  row_of_.resize(all);
  begins_.resize(count + 1);
  next_.resize(count);
  products_.reserve(2 * count);
}

void FastExperts::run(const ExpertsArgs& args) {
  const ExpertsSize& size = options_.experts;
  const int count = args.spec.count;
  check(args.rows <= options_.max_rows && count <= size.count && args.spec.used <= size.used &&
            args.router.cols <= size.dim && args.up->view.rows <= size.ffn_dim,
        "experts fit the workspace");
  args.chosen ? take_choice(args) : route(args);
  sort(args);
  const auto begin = [&](int expert) { return begins_[static_cast<size_t>(expert)]; };
  if (begin(count) == 0) std::fill_n(args.out, args.rows * args.router.cols, 0.0f);
  for (int first = 0, end; first < count; first = end) {
    end = first + 1;
    while (end < count && begin(end + 1) - begin(first) <= most_) ++end;
    if (begin(end) > begin(first)) compute(args, first, end);
  }
}

void FastExperts::route(const ExpertsArgs& args) {
  const ExpertsSpec& spec = args.spec;
  float* logits = logits_.as<float>();
  const float* in = args.route ? args.route : args.in;
  linear_.run_float({args.router, args.router_bias, in, logits, args.rows});
  // An exponential takes about as long as 16 additions.
  share_rows(pool_, args.rows, int64_t{spec.count} * 16, [&](int64_t r) {
    int32_t* chosen = chosen_.data() + r * spec.used;
    float* weights = weights_.data() + r * spec.used;
    choose_experts(logits + r * spec.count, args.choice_bias, spec, chosen, weights);
    for (int i = 0; args.expert_scale && i < spec.used; ++i) {
      weights[i] *= args.expert_scale[chosen[i]];
    }
  });
}

void FastExperts::take_choice(const ExpertsArgs& args) {
  for (int64_t i = 0; i < args.rows * args.spec.used; ++i) {
    const auto choice = static_cast<size_t>(i);
    const int32_t expert = args.chosen[i];
    chosen_[choice] = expert;
    weights_[choice] = args.weights[i];
    if (args.expert_scale && expert >= 0) weights_[choice] *= args.expert_scale[expert];
  }
}

void FastExperts::sort(const ExpertsArgs& args) {
  const int64_t used = args.spec.used, choices = args.rows * used;
  const auto count = static_cast<size_t>(args.spec.count);
  std::fill_n(begins_.begin(), count + 1, 0);
  for (int64_t i = 0; i < choices; ++i) {
    const int32_t expert = chosen_[static_cast<size_t>(i)];
    if (expert >= 0) ++begins_[static_cast<size_t>(expert) + 1];
  }
  for (size_t e = 0; e < count; ++e) begins_[e + 1] += begins_[e];
  std::copy_n(begins_.begin(), count, next_.begin());
  for (int64_t i = 0; i < choices; ++i) {
    const int32_t expert = chosen_[static_cast<size_t>(i)];
    const int64_t place = expert >= 0 ? next_[static_cast<size_t>(expert)]++ : -1;
    places_[static_cast<size_t>(i)] = place;
    if (place < 0) continue;
    row_of_[static_cast<size_t>(place)] = static_cast<int32_t>(i / used);
  }
}

void FastExperts::compute(const ExpertsArgs& args, int first, int end) {
  const int64_t dim = args.router.cols;
  const int64_t from = begins_[static_cast<size_t>(first)], to = begins_[static_cast<size_t>(end)];
  float* x = x_.as<float>();
  share_rows(pool_, to - from, dim, [&](int64_t i) {
    std::copy_n(args.in + row_of_[static_cast<size_t>(from + i)] * dim, dim, x + i * dim);
  });
  multiply(args, first, end);
  add_up(args, from, to);
}

void FastExperts::multiply(const ExpertsArgs& args, int first, int end) {
  const int64_t ffn_dim = args.up->view.rows, from = begins_[static_cast<size_t>(first)];
  const int64_t rows = begins_[static_cast<size_t>(end)] - from;
  float *x = x_.as<float>(), *gate = gate_.as<float>(), *up = up_.as<float>();
  products_.clear();
  const auto add = [&](const Weight* weights, const float* biases, const float* in, float* out) {
    for (int e = first; e < end; ++e) {
      const TensorView& weight = weights[e].view;
      const int64_t at = begins_[static_cast<size_t>(e)] - from;
      const int64_t count = begins_[static_cast<size_t>(e) + 1] - from - at;
      if (count == 0) continue;
      if (args.observer) args.observer->see(weights[e], in + at * weight.cols, count);
      const float* bias = biases ? biases + e * weight.rows : nullptr;
      products_.push_back({weight, bias, in + at * weight.cols, out + at * weight.rows, count});
    }
  };
  if (args.gate) add(args.gate, args.gate_bias, x, gate);
  if (args.gate && args.gate->view.type != args.up->view.type) {
    linear_.run(products_, x, rows);
    products_.clear();
  }
  add(args.up, args.up_bias, x, up);
  linear_.run(products_, x, rows);
  share_range(pool_, rows * ffn_dim, [&](int64_t at, int64_t count) {
    if (args.gate) {
      pointwise_.gated_act(args.spec.activation, gate + at, up + at, gate + at, count);
    } else {
      pointwise_.activate(args.spec.activation, up + at, gate + at, count);
    }
  });
  products_.clear();
  add(args.down, args.down_bias, gate, x);
  linear_.run(products_, gate, rows);
}

// Adds the outputs of places [from, to), which are in x_, to the rows that the places belong to.
void FastExperts::add_up(const ExpertsArgs& args, int64_t from, int64_t to) {
  const int64_t dim = args.router.cols, used = args.spec.used;
  share_rows(pool_, args.rows, dim * used, [&](int64_t r) {
    float* out = args.out + r * dim;
    if (from == 0) std::fill_n(out, dim, 0.0f);
    for (int64_t i = 0; i < used; ++i) {
      const auto choice = static_cast<size_t>(r * used + i);
      if (places_[choice] < from || places_[choice] >= to) continue;
      const float* y = x_.as<float>() + (places_[choice] - from) * dim;
      pointwise_.add({out, y, dim, weights_[choice]});
    }
  });
}

}  // namespace skald::cpu
