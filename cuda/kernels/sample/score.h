// Scores of a target token in each row of logits, as engine/sampling/score.h defines them. The
// device computes a few sums per row; the host takes their logarithms. The order of a row's sums
// does not depend on other rows.
#pragma once

#include <cstdint>

#include "cuda/gpu/stream.h"

namespace skald::cuda {

struct ScoreSums {
  double weights;      // sum of e^(logit - best)
  double weighted;     // sum of e^(logit - best) * (logit - best)
  float best, wanted;  // the largest logit, and the target's
  int32_t top;         // best token, of equal ones the lowest; -1: a NaN, a +inf, or all -inf
  int32_t rank;        // tokens before the target
};

// Scores some rows of a list. Row i of the launch is row rows[i] of the logits, or row i if `rows`
// is null.
struct ScoreLaunch {
  const float* logits;  // [.., vocab]
  int64_t vocab;
  const int32_t* rows;     // [count] or nullptr
  const int32_t* targets;  // [count]
  int count;
  ScoreSums* sums;  // [count]
};
void launch_score(const ScoreLaunch& launch, Stream stream);

// Sums for the Kullback-Leibler divergence of a row from a base model's row. Exponentials are in
// double, since the two rows may differ by less than a float's rounding.
struct DivergenceSums {
  double weights, base_weights;  // sums of e^(logit - best), of each row
  double shift;                  // sum of e^(base - best of base) * (base - logit)
};

struct DivergenceLaunch {
  const float* logits;
  const float* base;  // as `logits`
  int64_t vocab;
  const int32_t* rows;  // rows of both
  int count;
  const ScoreSums* sums;  // from launch_score(); rows without a top get zeros
  const ScoreSums* base_sums;
  DivergenceSums* divergences;  // [count]
};
void launch_divergence(const DivergenceLaunch& launch, Stream stream);

// Bytes of the lists and sums of `rows` rows.
inline constexpr int64_t score_list_bytes(int64_t rows) { return rows * 2 * 4; }
inline constexpr int64_t score_sums_bytes(int64_t rows) {
  return rows * int64_t{sizeof(ScoreSums)};
}
inline constexpr int64_t divergence_bytes(int64_t rows) {
  return rows * int64_t{sizeof(DivergenceSums)};
}

}  // namespace skald::cuda
