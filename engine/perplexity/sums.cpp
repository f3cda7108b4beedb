#include "engine/perplexity/sums.h"

#include <algorithm>
#include <cmath>

namespace skald {

Estimate mean_of(double sum, double sum_of_squares, int64_t count) {
  const double n = static_cast<double>(count);
  if (count < 1) return {};
  const double mean = sum / n;
  if (count < 2) return {mean, 0};
  const double variance = std::max(sum_of_squares / n - mean * mean, 0.0);
  return {mean, std::sqrt(variance / (n - 1))};
}

void PplSums::add(const TokenScore& score) {
  ++tokens;
  nll -= score.logprob;
  nll_squared += score.logprob * score.logprob;
}

void PplSums::add(const PplSums& sums) {
  tokens += sums.tokens;
  nll += sums.nll;
  nll_squared += sums.nll_squared;
}

Estimate PplSums::mean() const { return mean_of(nll, nll_squared, tokens); }

Estimate PplSums::perplexity() const {
  const Estimate logarithm = mean();
  const double value = std::exp(logarithm.value);
  return {value, value * logarithm.error};
}

void ComparisonSums::add(const RowComparison& row, double row_slack) {
  base.add(row.base);
  const double difference = row.base.logprob - row.score.logprob;
  nll += difference;
  nll_squared += difference * difference;
  divergence += row.divergence;
  divergence_squared += row.divergence * row.divergence;
  largest_divergence = std::max(largest_divergence, row.divergence);
  slack += row_slack;
  const double p = std::exp(row.score.logprob) - std::exp(row.base.logprob);
  probability += p;
  probability_squared += p * p;
  probability_fourth += p * p * p * p;
  same_top += row.score.top == row.base.top;
}

void ComparisonSums::add(const ComparisonSums& sums) {
  base.add(sums.base);
  nll += sums.nll;
  nll_squared += sums.nll_squared;
  divergence += sums.divergence;
  divergence_squared += sums.divergence_squared;
  largest_divergence = std::max(largest_divergence, sums.largest_divergence);
  slack += sums.slack;
  probability += sums.probability;
  probability_squared += sums.probability_squared;
  probability_fourth += sums.probability_fourth;
  same_top += sums.same_top;
}

}  // namespace skald
