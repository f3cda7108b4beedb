#include "engine/sampling/score.h"

#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/rng.h"
#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

std::vector<float> random_row(size_t vocab, uint64_t seed, double spread = 12) {
  std::vector<float> row(vocab);
  for (size_t i = 0; i < vocab; ++i) {
    row[i] = static_cast<float>(spread * (uniform(seed, 1, static_cast<int64_t>(i)) - 0.5));
  }
  return row;
}

double exact_logprob(const std::vector<float>& row, size_t target) {
  double sum = 0;
  for (const float x : row) sum += std::exp(double{x});
  return row[target] - std::log(sum);
}

TEST_CASE("a row's score agrees with the softmax, for any vocabulary") {
  for (const size_t vocab : {1, 2, 7, 8, 9, 33, 1000, 32000}) {
    const std::vector<float> row = random_row(vocab, vocab);
    const size_t target = vocab / 2;
    const TokenScore score = score_row(row, static_cast<int32_t>(target));
    double entropy = 0;
    size_t top = 0, before = 0;
    for (size_t i = 0; i < vocab; ++i) {
      entropy -= std::exp(exact_logprob(row, i)) * exact_logprob(row, i);
      if (row[i] > row[top]) top = i;
      before += row[i] > row[target];
      if (vocab > 1000) break;  // the sum over all tokens for each token would take a minute
    }
    CAPTURE(vocab);
    CHECK(score.logprob == Approx(exact_logprob(row, target)).margin(2e-7));
    if (vocab > 1000) continue;
    CHECK(score.entropy == Approx(entropy).margin(2e-6));
    CHECK(score.top == static_cast<int32_t>(top));
    CHECK(score.top_logprob == Approx(exact_logprob(row, top)).margin(2e-7));
    CHECK(score.rank == static_cast<int32_t>(before));
  }
}

TEST_CASE("tokens with equal logits are ranked by id") {
  const std::vector<float> row(5, 1.0f);
  for (int32_t id = 0; id < 5; ++id) CHECK(score_row(row, id).rank == id);
  CHECK(score_row(row, 3).top == 0);
  CHECK(score_row(row, 3).logprob == Approx(-std::log(5.0)).margin(1e-7));
  CHECK(score_row(row, 3).entropy == Approx(std::log(5.0)).margin(1e-6));
}

TEST_CASE("a logit of -inf has no weight; NaN and +inf make the score NaN") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> row = {1, 2, -kInfinity, 0};
  CHECK(score_row(row, 1).logprob ==
        Approx(std::log(std::exp(1.0) / (1 + std::exp(1.0) + std::exp(-1.0)))));
  CHECK(std::isfinite(score_row(row, 1).entropy));
  CHECK(score_row(row, 2).logprob == -kInfinity);
  CHECK(score_row(row, 2).rank == 3);
  for (const float bad : {kInfinity, std::nanf("")}) {
    for (size_t at = 0; at < row.size(); ++at) {
      std::vector<float> broken = row;
      broken[at] = bad;
      CHECK(std::isnan(score_row(broken, 0).logprob));
    }
  }
  CHECK(std::isnan(score_row(std::vector<float>(4, -kInfinity), 0).logprob));
}

TEST_CASE(
    "the divergence of a row from itself is zero, and from another row agrees with the formula") {
  const std::vector<float> a = random_row(500, 1), b = random_row(500, 2);
  CHECK(compare_rows(a, a, 7).divergence == 0);
  double expected = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    expected += std::exp(exact_logprob(b, i)) * (exact_logprob(b, i) - exact_logprob(a, i));
  }
  const RowComparison comparison = compare_rows(a, b, 7);
  CHECK(comparison.divergence == Approx(expected).epsilon(1e-12));
  CHECK(comparison.score.logprob == score_row(a, 7).logprob);
  CHECK(comparison.base.logprob == score_row(b, 7).logprob);
}

TEST_CASE("a divergence of a millionth is not lost in rounding") {
  const std::vector<float> a = random_row(32000, 3);
  std::vector<float> b = a;
  for (size_t i = 0; i < b.size(); ++i) b[i] += i % 2 ? 1e-3f : -1e-3f;
  // When half of the logits change by +d and half by -d, the divergence is d²/2 to first order.
  CHECK(compare_rows(b, a, 0).divergence == Approx(5e-7).epsilon(0.05));
}

}  // namespace
}  // namespace skald::test
