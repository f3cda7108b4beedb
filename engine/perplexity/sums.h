// What the tokens of a chunk add to a result. The sums of a run are the chunks' sums, added in the
// order of the chunks, so that a run in parts, or one that was stopped and resumed, ends in the
// same digits.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sampling/score.h"

namespace skald {

// The mean of `count` numbers and its standard error, as if they were independent.
struct Estimate {
  double value = 0, error = 0;
};

Estimate mean_of(double sum, double sum_of_squares, int64_t count);

// Natural logarithms; nll is the negative log-likelihood of a token.
struct PplSums {
  int64_t tokens = 0;
  double nll = 0, nll_squared = 0;

  void add(const TokenScore& score);
  void add(const PplSums& sums);

  Estimate mean() const;        // nll of a token
  Estimate perplexity() const;  // e^mean
};

// Beside a base model, on the same tokens. Differences are this model's less the base's.
struct ComparisonSums {
  PplSums base;
  double nll = 0, nll_squared = 0;  // differences
  double divergence = 0, divergence_squared = 0, largest_divergence = 0;
  double slack = 0;  // how much larger `divergence` may be in truth (a compact base file; else 0)
  // Differences of the target's probability, and their squares' squares.
  double probability = 0, probability_squared = 0, probability_fourth = 0;
  int64_t same_top = 0;

  void add(const RowComparison& row, double row_slack);
  void add(const ComparisonSums& sums);
};

}  // namespace skald
