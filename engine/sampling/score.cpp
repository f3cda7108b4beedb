#include "engine/sampling/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/exp.h"

namespace skald {
namespace {

// Partial sums, so that compilers use vectors without changing the order of the additions.
constexpr size_t kSumLanes = 8;

// Differences below this have weight 0. The product of weight and difference must then be 0 too,
// even for a masked token's -inf.
constexpr float kNoWeight = -200;

struct Sums {
  double weights = 0;   // sum of e^(logit - best)
  double weighted = 0;  // sum of e^(logit - best) * (logit - best)
};

Sums sum_weights(std::span<const float> logits, float best) {
  double weights[kSumLanes] = {}, weighted[kSumLanes] = {};
  const auto add = [&](size_t lane, float logit) {
    const float below = std::max(logit - best, kNoWeight);
    const double weight = exp_nonpositive(below);
    weights[lane] += weight;
    weighted[lane] += weight * below;
  };
  const size_t whole = logits.size() / kSumLanes * kSumLanes;
  for (size_t i = 0; i < whole; i += kSumLanes) {
    for (size_t lane = 0; lane < kSumLanes; ++lane) add(lane, logits[i + lane]);
  }
  for (size_t i = whole; i < logits.size(); ++i) add(i - whole, logits[i]);
  Sums sums;
  for (size_t lane = 0; lane < kSumLanes; ++lane) {
    sums.weights += weights[lane];
    sums.weighted += weighted[lane];
  }
  return sums;
}

bool has_nan_or_infinity(std::span<const float> logits) {
  bool bad = false;
  for (const float logit : logits) bad |= !(logit <= std::numeric_limits<float>::max());
  return bad;
}

}  // namespace

TokenScore score_row(std::span<const float> logits, int32_t target) {
  check(target >= 0 && static_cast<size_t>(target) < logits.size(), "a target has a logit");
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto top = std::max_element(logits.begin(), logits.end());
  const float best = *top;
  if (has_nan_or_infinity(logits) || std::isinf(best)) return {kNan, kNan, kNan, -1, 0};

  const Sums sums = sum_weights(logits, best);
  const double log_total = std::log(sums.weights);
  const float wanted = logits[static_cast<size_t>(target)];
  TokenScore score;
  score.top = static_cast<int32_t>(top - logits.begin());
  score.top_logprob = -log_total;
  score.logprob = double{wanted} - best - log_total;
  score.entropy = log_total - sums.weighted / sums.weights;
  int64_t before = 0;
  for (const float logit : logits) before += logit > wanted;
  for (int32_t id = 0; id < target; ++id) before += logits[static_cast<size_t>(id)] == wanted;
  score.rank = static_cast<int32_t>(before);
  return score;
}

double log_sum_exp(std::span<const float> logits) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - best);
  return best + std::log(sum);
}

RowComparison compare_rows(std::span<const float> logits, std::span<const float> base,
                           int32_t target) {
  check(logits.size() == base.size(), "rows of one vocabulary are compared");
  RowComparison result{score_row(logits, target), score_row(base, target), 0};
  if (std::isnan(result.score.logprob) || std::isnan(result.base.logprob)) {
    result.divergence = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  const double log_total = log_sum_exp(logits), base_log_total = log_sum_exp(base);
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double base_logprob = base[i] - base_log_total;
    const double p = std::exp(base_logprob);
    if (p > 0) sum += p * (base_logprob - (logits[i] - log_total));
  }
  result.divergence = sum;
  return result;
}

}  // namespace skald
