// Runs a model over a golden's text. Compares logits, mean negative log-likelihood and greedy
// tokens with those of Hugging Face transformers in float32.
#pragma once

#include <algorithm>
#include <cmath>

#include "engine/schedule/session.h"
#include "engine/step/backend.h"
#include "tests/catch.h"
#include "tests/golden.h"

namespace skald::test {

inline constexpr double kLogitTolerance = 1e-4;
// With a smaller lead of the best logit over the second, rounding may decide the greedy token.
inline constexpr double kClearMargin = 1e-3;

// Calls `visit(position, logits)` once for each token, because all logits of a long text together
// would need too much memory.
template <class Visit>
void for_each_logits(Executor& executor, const std::vector<int32_t>& ids, Visit visit) {
  Sequence sequence = executor.new_sequence();
  const size_t chunk = static_cast<size_t>(executor.max_rows());
  for (size_t at = 0; at < ids.size(); at += chunk) {
    const std::span<const int32_t> part =
        std::span(ids).subspan(at, std::min(chunk, ids.size() - at));
    const SeqRows rows{&sequence, part, Want::EveryRow};
    const int64_t wanted = executor.run({&rows, 1});
    for (int64_t row = 0; row < wanted; ++row) visit(at + row, executor.logits(row));
  }
}

// The logits of all tokens, one row after the other.
inline std::vector<float> all_logits(Executor& executor, const std::vector<int32_t>& ids) {
  std::vector<float> all;
  for_each_logits(executor, ids, [&](size_t, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
  });
  return all;
}

inline double negative_log_likelihood(std::span<const float> logits, int32_t target) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - best);
  return best + std::log(sum) - logits[static_cast<size_t>(target)];
}

inline double largest_difference(std::span<const float> logits, const float* expected) {
  double largest = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double difference = std::fabs(double{logits[i]} - expected[i]);
    if (!(difference <= largest)) largest = difference;  // keeps NaN
  }
  return largest;
}

inline void check_logits(Executor& executor, const std::filesystem::path& golden_json,
                         const std::filesystem::path& logits_npy,
                         double tolerance = kLogitTolerance) {
  const nlohmann::json golden = read_json(golden_json);
  const Matrix expected = read_npy(logits_npy);
  const auto ids = golden["input_ids"].get<std::vector<int32_t>>();
  std::vector<int64_t> rows(static_cast<size_t>(expected.rows));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  if (golden.contains("logit_rows")) rows = golden["logit_rows"].get<std::vector<int64_t>>();

  double largest = 0, nll = 0;
  size_t compared = 0;
  for_each_logits(executor, ids, [&](size_t position, std::span<const float> logits) {
    REQUIRE(logits.size() == static_cast<size_t>(expected.cols));
    const auto row = std::find(rows.begin(), rows.end(), static_cast<int64_t>(position));
    if (row != rows.end()) {
      largest = std::max(largest, largest_difference(logits, expected.row(row - rows.begin())));
      ++compared;
    }
    if (position + 1 < ids.size()) nll += negative_log_likelihood(logits, ids[position + 1]);
  });
  CHECK(compared == rows.size());
  CHECK(largest <= tolerance);
  CHECK(nll / static_cast<double>(ids.size() - 1) ==
        Approx(golden["mean_nll"].get<double>()).margin(1e-5));
}

inline void check_greedy(Executor& executor, const nlohmann::json& golden) {
  const auto expected = golden["greedy_ids"].get<std::vector<int32_t>>();
  const auto margins = golden["greedy_margins"].get<std::vector<double>>();
  Session session(executor, SamplingParams{.temperature = 0});
  session.feed(golden["greedy_prompt_ids"].get<std::vector<int32_t>>());
  REQUIRE(margins.at(0) >= kClearMargin);
  for (size_t i = 0; i < expected.size() && margins[i] >= kClearMargin; ++i) {
    REQUIRE(session.next().token == expected[i]);
  }
}

}  // namespace skald::test
