// An independent sampling chain that sorts everything in double precision: slow, and written from
// the description in engine/sampling/sampler.h alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/sampling/sampler.h"

namespace skald::test {

struct ReferenceToken {
  int32_t id;
  double logit;
};

inline std::vector<double> softmax(const std::vector<ReferenceToken>& tokens, double temperature) {
  double best = -std::numeric_limits<double>::infinity();
  for (const auto& t : tokens) best = std::max(best, t.logit);
  std::vector<double> p;
  double total = 0;
  for (const auto& t : tokens) {
    p.push_back(std::exp((t.logit - best) / temperature));
    total += p.back();
  }
  for (double& x : p) x /= total;
  return p;
}

inline std::vector<ReferenceToken> reference_adjusted(std::span<const float> logits,
                                                      const SamplingParams& params,
                                                      std::span<const int32_t> history) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::map<int32_t, double> bias;
  bool forced = false;
  for (const auto& [id, value] : params.logit_bias) {
    bias[id] += value;
    forced = forced || value == kInf;
  }
  std::map<int32_t, int> count;
  for (size_t i = 0; i < history.size(); ++i) {
    if (params.repeat_last_n == -1 ||
        static_cast<int64_t>(i) >= static_cast<int64_t>(history.size()) - params.repeat_last_n) {
      ++count[history[i]];
    }
  }
  std::vector<ReferenceToken> tokens;
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    double logit = logits[i];
    const double b = bias.count(id) ? bias[id] : 0;
    if (forced && b != kInf) continue;
    if (b != kInf) logit += b;
    if (std::isinf(logit)) continue;
    if (const int n = count.count(id) ? count[id] : 0; n > 0) {
      logit = logit > 0 ? logit / params.repeat_penalty : logit * params.repeat_penalty;
      logit -= double{params.frequency_penalty} * n + params.presence_penalty;
    }
    tokens.push_back({id, logit});
  }
  return tokens;
}

// The surviving tokens and their probabilities, best first.
inline std::vector<std::pair<int32_t, double>> reference_distribution(
    std::span<const float> logits, const SamplingParams& params,
    std::span<const int32_t> history = {}) {
  std::vector<ReferenceToken> tokens = reference_adjusted(logits, params, history);
  const auto by_rank = [](const ReferenceToken& a, const ReferenceToken& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  std::sort(tokens.begin(), tokens.end(), by_rank);
  if (params.temperature == 0) return {{tokens[0].id, 1.0}};
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < tokens.size()) {
    tokens.resize(params.top_k);
  }
  if (params.typical_p < 1) {
    const std::vector<double> p = softmax(tokens, 1);
    double entropy = 0;
    for (double x : p) entropy -= x > 0 ? x * std::log(x) : 0;
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < p.size(); ++i) {
      order.emplace_back(std::abs(-std::log(p[i]) - entropy), i);
    }
    // Equally likely tokens differ by rounding alone; their rank decides.
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first - 1e-12; });
    std::vector<ReferenceToken> kept;
    double sum = 0;
    for (const auto& [distance, i] : order) {
      kept.push_back(tokens[i]);
      sum += p[i];
      if (sum > params.typical_p) break;
    }
    tokens = kept;
    std::sort(tokens.begin(), tokens.end(), by_rank);
  }
  if (params.top_p < 1) {
    const std::vector<double> p = softmax(tokens, 1);
    double sum = 0;
    size_t keep = 0;
    while (keep < p.size()) {
      sum += p[keep++];
      if (sum >= params.top_p - 1e-15) break;
    }
    tokens.resize(keep);
  }
  if (params.min_p > 0) {
    const double least = tokens[0].logit + std::log(double{params.min_p}) - 1e-6;
    while (tokens.back().logit < least) tokens.pop_back();
  }
  const std::vector<double> p = softmax(tokens, params.temperature);
  std::vector<std::pair<int32_t, double>> result;
  for (size_t i = 0; i < tokens.size(); ++i) result.emplace_back(tokens[i].id, p[i]);
  return result;
}

// Settings without filters and penalties: the model's own distribution.
inline SamplingParams plain_sampling() {
  SamplingParams params;
  params.temperature = 1;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  return params;
}

}  // namespace skald::test
