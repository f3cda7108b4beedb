// Sums over scored tokens, from which results are computed. A run adds the sums of its chunks in
// the order of the chunks, so a run in several parts, or one that was stopped and resumed, ends
// with the same digits.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sampling/score.h"

namespace skald {

// A mean and its standard error, computed as if the numbers were independent.
struct Estimate {
  double value = 0, error = 0;
};

Estimate mean_of(double sum, double sum_of_squares, int64_t count);

// Natural logarithms. nll is the negative log-likelihood of a token.
struct PplSums {
  int64_t tokens = 0;
  double nll = 0, nll_squared = 0;

  void add(const TokenScore& score);
  void add(const PplSums& sums);

  Estimate mean() const;        // mean nll of a token
  Estimate perplexity() const;  // e^mean
};

// Comparison with a base model on the same tokens. A difference is this model's value minus the
// base's.
struct ComparisonSums {
  PplSums base;
  double nll = 0, nll_squared = 0;  // sums of differences of nll
  double divergence = 0, divergence_squared = 0, largest_divergence = 0;
  // Upper bound on how much `divergence` is too small (compact base files; else 0)
  double slack = 0;
  // Sums of the difference p of the target's probability, of p² and of p⁴.
  double probability = 0, probability_squared = 0, probability_fourth = 0;
  int64_t same_top = 0;

  void add(const RowComparison& row, double row_slack);
  void add(const ComparisonSums& sums);
};

}  // namespace skald
