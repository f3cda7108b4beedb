// What a row of logits says about the token that follows: the numbers behind perplexity, scoring
// and the comparison of two models. Weights are e^(logit - best) in float32 with a relative error
// of 1.5e-7. Their sums are in double and in a fixed order, so a result does not depend on threads.
#pragma once

#include <cstdint>
#include <span>

namespace skald {

// All logarithms are natural.
struct TokenScore {
  double logprob = 0;      // of the target token; NaN if the row holds NaN or +inf, or is all -inf
  double entropy = 0;      // entropy of the row
  double top_logprob = 0;  // logprob of the most probable token
  int32_t top = -1;        // the most probable token; of equal ones the lowest id
  int32_t rank = 0;        // tokens that rank before the target; 0: the target is `top`
};

TokenScore score_row(std::span<const float> logits, int32_t target);

struct RowComparison {
  TokenScore score, base;
  double divergence = 0;  // Kullback-Leibler, of this row from the base's: sum p_base ln(p_base/p)
};

// log(sum of e^logits) in double, exponentials included: for differences below the rounding of
// score_row().
double log_sum_exp(std::span<const float> logits);

RowComparison compare_rows(std::span<const float> logits, std::span<const float> base,
                           int32_t target);

}  // namespace skald
