#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/exp.h"
#include "engine/base/rng.h"
#include "engine/sampling/token_weight.h"

namespace skald {

using sampling::Candidate;
using sampling::Row;
using sampling::Survivors;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 8;   // independent accumulators, which the compiler turns into vectors
constexpr size_t kBlock = 32;  // logits tested together when few of them matter

// Best first, ties by lower id: a total order.
bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// The largest logit. Throws unless it is finite and no logit is NaN or +inf.
float scan(std::span<const float> logits) {
  float best[kLanes];
  int bad[kLanes] = {};
  std::fill_n(best, kLanes, -kInfinity);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    const float* x = logits.data() + i;
    for (size_t lane = 0; lane < kLanes; ++lane) bad[lane] += !(x[lane] <= FLT_MAX);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      best[lane] = x[lane] > best[lane] ? x[lane] : best[lane];
    }
  }
  for (; i < logits.size(); ++i) {
    bad[0] += !(logits[i] <= FLT_MAX);
    best[0] = std::max(best[0], logits[i]);
  }

  int64_t count = 0;
  for (int b : bad) count += b;
  if (count > 0) {
    size_t first = 0;
    while (logits[first] <= FLT_MAX) ++first;
    sampling::fail_not_finite(count, static_cast<int64_t>(logits.size()),
                              static_cast<int64_t>(first));
  }
  return *std::max_element(best, best + kLanes);
}

uint64_t total_weight(std::span<const float> logits, float best, float temperature) {
  uint64_t sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    const float* x = logits.data() + i;
    float weights[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) {
      weights[lane] = exp_nonpositive((x[lane] - best) / temperature);
    }
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += weight_units(weights[lane]);
  }
  for (; i < logits.size(); ++i) sums[0] += token_weight(logits[i], best, temperature);
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}

// Calls take(candidate) for each logit of at least `floor`, by id; `take` may raise the floor. Most
// blocks of a real row have no such logit, and testing a whole block takes a few vector
// instructions.
template <class Take>
void visit_at_least(std::span<const float> logits, const float& floor, Take take) {
  for (size_t base = 0; base < logits.size(); base += kBlock) {
    const size_t end = std::min(base + kBlock, logits.size());
    if (end - base == kBlock) {
      const float* x = logits.data() + base;
      const float least = floor;
      int any = 0;
      for (size_t j = 0; j < kBlock; ++j) any |= x[j] >= least;
      if (!any) continue;
    }
    for (size_t i = base; i < end; ++i) {
      if (logits[i] >= floor) take(Candidate{logits[i], static_cast<int32_t>(i)});
    }
  }
}

// Sorts items only as far as needed: visit(item) sees them in order until it returns false. Returns
// the number of items visited.
template <class Before, class Visit>
size_t visit_in_order(std::span<Candidate> items, Before before, Visit visit) {
  size_t seen = 0;
  for (size_t chunk = 64; seen < items.size(); chunk *= 4) {
    const size_t end = std::min(seen + chunk, items.size());
    const auto first = items.begin() + seen;
    const auto last = items.begin() + end;
    if (end < items.size()) std::nth_element(first, last, items.end(), before);
    std::sort(first, last, before);
    while (seen < end) {
      if (!visit(items[seen++])) return seen;
    }
  }
  return seen;
}

// The k best tokens, sorted, without masked tokens.
void select_top(std::span<const float> logits, size_t k, std::vector<Candidate>& out) {
  out.clear();
  if (k == 0) return;
  const size_t room = 2 * k + 64;
  float floor = -FLT_MAX;
  visit_at_least(logits, floor, [&](const Candidate& candidate) {
    out.push_back(candidate);
    if (out.size() < room) return;
    std::nth_element(out.begin(), out.begin() + (k - 1), out.end(), ranks_before);
    out.resize(k);
    floor = out.back().logit;
  });
  std::sort(out.begin(), out.end(), ranks_before);
  out.resize(std::min(k, out.size()));
}

void select_at_least(std::span<const float> logits, float floor, std::vector<Candidate>& out) {
  out.clear();
  floor = std::max(floor, -FLT_MAX);  // keeps masked tokens out
  visit_at_least(logits, floor, [&](const Candidate& candidate) { out.push_back(candidate); });
}

uint64_t total_weight(std::span<const Candidate> candidates, float best, float temperature) {
  uint64_t total = 0;
  for (const Candidate& c : candidates) total += token_weight(c.logit, best, temperature);
  return total;
}

struct MassGoal {
  uint64_t weight;  // goal: the best tokens together weigh this much,
  float floor;      // or all tokens of at least this logit are included
  float temperature;
};

// All tokens down to some logit, by id: those that reach the goal, and some more.
void select_mass(const Row& row, const MassGoal& goal, std::vector<Candidate>& out) {
  for (float reach = 4; reach <= 128; reach *= 2) {  // beyond a distance of 87 all weights are 0
    const float floor = row.best - reach * goal.temperature;
    if (!(floor > goal.floor)) break;
    select_at_least(row.logits, floor, out);
    if (total_weight(out, row.best, goal.temperature) >= goal.weight) return;
  }
  select_at_least(row.logits, goal.floor, out);
}

// The surprise of token i is log(Z) - x[i] with x[i] = logit[i] - best. The entropy is log(Z) -
// mean, where mean is the expectation of x. So |x[i] - mean| says how untypical token i is.
void keep_typical(std::vector<Candidate>& candidates, float typical_p) {
  const float best = std::min_element(candidates.begin(), candidates.end(), ranks_before)->logit;
  const auto x = [best](const Candidate& c) { return double{c.logit} - double{best}; };
  const auto weight = [best](const Candidate& c) { return exp_nonpositive(c.logit - best); };
  double total = 0;
  double mean = 0;
  for (const Candidate& c : candidates) {
    const double w = weight(c);
    total += w;
    mean += w * x(c);
  }
  mean /= total;
  const auto more_typical = [&](const Candidate& a, const Candidate& b) {
    const double distance_a = std::abs(x(a) - mean);
    const double distance_b = std::abs(x(b) - mean);
    return distance_a < distance_b || (distance_a == distance_b && ranks_before(a, b));
  };
  double sum = 0;
  candidates.resize(visit_in_order(candidates, more_typical, [&](const Candidate& c) {
    sum += weight(c);
    return sum <= double{typical_p} * total;
  }));
  std::sort(candidates.begin(), candidates.end(), ranks_before);
}

// Sorts the candidates that are kept.
void keep_top_p(std::vector<Candidate>& candidates, float best, uint64_t goal) {
  uint64_t sum = 0;
  candidates.resize(visit_in_order(candidates, ranks_before, [&](const Candidate& c) {
    sum += token_weight(c.logit, best, 1);
    return sum < goal;
  }));
}

float min_p_floor(float best, float min_p) {
  return min_p > 0 ? std::max(best + std::log(min_p), -FLT_MAX) : -FLT_MAX;
}

// Rounds to a finite float, so that later differences are not NaN.
float to_logit(double value) {
  return static_cast<float>(std::clamp(value, double{-FLT_MAX}, double{FLT_MAX}));
}

void add_bias(std::span<const std::pair<int32_t, float>> biases, std::span<float> adjusted) {
  std::vector<std::pair<int32_t, float>> forced;  // forced tokens and their logits
  for (const auto& [id, bias] : biases) {
    check(id >= 0 && static_cast<size_t>(id) < adjusted.size(), "logit bias inside the vocabulary");
    if (bias == kInfinity) forced.emplace_back(id, adjusted[id]);
  }
  if (!forced.empty()) {
    std::fill(adjusted.begin(), adjusted.end(), -kInfinity);
    for (const auto& [id, logit] : forced) adjusted[id] = logit;
  }
  for (const auto& [id, bias] : biases) {
    if (bias == -kInfinity) adjusted[id] = -kInfinity;
    if (adjusted[id] == -kInfinity || bias == kInfinity) continue;
    adjusted[id] = to_logit(double{adjusted[id]} + bias);
  }
}

// Copies the logits of allowed tokens, and sets the others to -inf. False if no token remains.
bool keep_allowed(std::span<const float> logits, std::span<const uint64_t> allowed,
                  std::vector<float>& kept) {
  kept.resize(logits.size());
  bool any = false;
  for (size_t base = 0; base < logits.size(); base += 64) {
    const size_t count = std::min<size_t>(64, logits.size() - base);
    const uint64_t word = base / 64 < allowed.size() ? allowed[base / 64] : 0;
    const float* from = logits.data() + base;
    float* to = kept.data() + base;
    if (word == 0) {
      std::fill_n(to, count, -kInfinity);
      continue;
    }
    for (size_t i = 0; i < count; ++i) {
      to[i] = word >> i & 1 ? from[i] : -kInfinity;
      any |= to[i] != -kInfinity;
    }
  }
  return any;
}

}  // namespace

void sampling::fail_not_finite(int64_t bad, int64_t vocab, int64_t first_bad) {
  fail(Exit::Failed, "the model's logits are not finite: ", bad, " of ", vocab,
       " are NaN or +inf, the first for token ", first_bad,
       "; its weights are damaged, or a sum overflowed");
}

void sampling::fail_all_masked(int64_t vocab) {
  fail(Exit::Failed, "no token to pick: all ", vocab, " logits are -inf");
}

void sampling::fail_all_banned() {
  fail(Exit::Failed, "no token to pick: the logit bias bans all that the model allows");
}

void sampling::fail_all_forbidden() {
  fail(Exit::Failed, "no token to pick: all that the grammar allows here have logits of -inf");
}

void Sampler::penalize(const SamplingParams& params, std::span<const int32_t> history) {
  history = penalized_history(params, history);
  const auto known = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < adjusted_.size();
  };
  if (counts_.size() < adjusted_.size()) counts_.resize(adjusted_.size());
  for (int32_t id : history) {
    if (known(id)) ++counts_[id];
  }
  for (int32_t id : history) {
    if (!known(id) || counts_[id] == 0) continue;
    const double count = counts_[id];
    counts_[id] = 0;
    double logit = adjusted_[id];
    if (logit == -kInfinity) continue;
    logit = logit > 0 ? logit / params.repeat_penalty : logit * params.repeat_penalty;
    logit -= count * params.frequency_penalty + params.presence_penalty;
    adjusted_[id] = to_logit(logit);
  }
}

Row Sampler::adjust(std::span<const float> logits, const SamplingParams& params,
                    const SampleContext& context) {
  check(!logits.empty(), "logits to sample from");
  if (logits.size() > static_cast<size_t>(kMostWeighedTokens)) {
    fail(Exit::Failed, "a vocabulary of ", logits.size(), " tokens: sampling takes at most ",
         kMostWeighedTokens);
  }
  check(context.position >= 0 && context.position <= kMaxRandomPosition, "a position to sample at");
  const float model_best = scan(logits);
  if (model_best == -kInfinity) {
    sampling::fail_all_masked(static_cast<int64_t>(logits.size()));
  }
  const bool constrained = !context.allowed.empty();
  if (params.logit_bias.empty() && !penalizes(params) && !constrained) {
    return {logits, model_best, model_best};
  }

  if (constrained) {
    if (!keep_allowed(logits, context.allowed, adjusted_)) sampling::fail_all_forbidden();
  } else {
    adjusted_.assign(logits.begin(), logits.end());
  }
  add_bias(params.logit_bias, adjusted_);
  if (penalizes(params)) penalize(params, context.history);
  const Row row{adjusted_, scan(adjusted_), model_best};
  if (row.best == -kInfinity) {
    sampling::fail_all_banned();
  }
  return row;
}

// Fills candidates_ with the survivors. With `u` and without filters, candidates_ holds only the
// best tokens that a draw with `u` looks at, and some more.
Survivors Sampler::collect(const Row& row, const SamplingParams& params, std::optional<double> u) {
  float best = row.best;
  const bool top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < row.logits.size();
  if (top_k || params.typical_p < 1) {
    if (top_k) {
      select_top(row.logits, params.top_k, candidates_);
    } else {
      select_at_least(row.logits, -FLT_MAX, candidates_);
    }
    if (params.typical_p < 1) {
      keep_typical(candidates_, params.typical_p);
      best = candidates_.front().logit;
    }
    if (params.top_p < 1) {
      const uint64_t total = total_weight(candidates_, best, 1);
      keep_top_p(candidates_, best, nucleus_weight(params.top_p, total));
    }
    const float floor = min_p_floor(best, params.min_p);
    while (candidates_.back().logit < floor) candidates_.pop_back();
  } else {
    // The survivors are the head of the ranking, cut by top-p or min-p. So a large vocabulary need
    // not be ranked as a whole.
    const float floor = min_p_floor(best, params.min_p);
    if (params.top_p < 1) {
      const uint64_t goal = nucleus_weight(params.top_p, total_weight(row.logits, best, 1));
      select_mass(row, {goal, floor, 1}, candidates_);
      keep_top_p(candidates_, best, goal);
    } else if (params.min_p > 0) {
      select_at_least(row.logits, floor, candidates_);
    } else {
      const uint64_t total = total_weight(row.logits, best, params.temperature);
      const uint64_t goal = u ? drawn_weight(*u, total) : total + 1;
      select_mass(row, {goal, floor, params.temperature}, candidates_);
      return {best, total};
    }
  }
  return {best, total_weight(candidates_, best, params.temperature)};
}

int32_t Sampler::draw(const Row& row, const SamplingParams& params, double u) {
  const Survivors survivors = collect(row, params, u);
  const uint64_t goal = drawn_weight(u, survivors.total);
  int32_t token = 0;
  uint64_t sum = 0;
  visit_in_order(candidates_, ranks_before, [&](const Candidate& c) {
    token = c.id;
    sum += token_weight(c.logit, survivors.best, params.temperature);
    return sum < goal;
  });
  return token;
}

const Picked& Sampler::pick(std::span<const float> logits, const SamplingParams& params,
                            const SampleContext& context) {
  if (candidates_.capacity() < logits.size()) candidates_.reserve(logits.size());
  const Row row = adjust(logits, params, context);
  if (params.temperature == 0) {
    const auto first = std::find(row.logits.begin(), row.logits.end(), row.best);
    picked_.token = static_cast<int32_t>(first - row.logits.begin());
  } else {
    const double u = uniform(params.seed, context.request, context.position);
    picked_.token = draw(row, params, u);
  }

  const uint64_t total = total_weight(logits, row.model_best, 1);
  const auto logprob = [&](float logit) { return log_share(logit, row.model_best, total); };
  picked_.logprob = logprob(logits[picked_.token]);
  picked_.top.clear();
  select_top(logits, params.top_logprobs, candidates_);
  for (const Candidate& c : candidates_) picked_.top.emplace_back(c.id, logprob(c.logit));
  return picked_;
}

std::vector<std::pair<int32_t, double>> Sampler::distribution(std::span<const float> logits,
                                                              const SamplingParams& params,
                                                              const SampleContext& context) {
  const Row row = adjust(logits, params, context);
  if (params.temperature == 0) return {{pick(logits, params, context).token, 1.0}};
  const Survivors survivors = collect(row, params, std::nullopt);
  std::sort(candidates_.begin(), candidates_.end(), ranks_before);
  std::vector<std::pair<int32_t, double>> result;
  for (const Candidate& c : candidates_) {
    const uint64_t w = token_weight(c.logit, survivors.best, params.temperature);
    result.emplace_back(c.id, static_cast<double>(w) / static_cast<double>(survivors.total));
  }
  return result;
}

}  // namespace skald
