#include "engine/selftest/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/rng.h"

namespace skald::selftest {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The kinds of rows, used in turn.
enum class Kind { Plain, Ties, Masked, Certain, MaskedTarget, HasNan, HasInfinity, AllMasked };
constexpr int kKinds = 8;

void fill(std::span<float> row, Kind kind, int32_t target, uint64_t seed, int64_t stream) {
  const auto random = [&](size_t i, uint32_t word) {
    return static_cast<float>(
        uniform(seed, static_cast<uint64_t>(stream), static_cast<int64_t>(i), word));
  };
  const auto wanted = static_cast<size_t>(target);
  for (size_t i = 0; i < row.size(); ++i) {
    const float x = 12 * random(i, 0) + 6 * random(i, 1) - 9;
    row[i] = kind == Kind::Ties ? std::floor(x) : x;
    if (kind == Kind::Masked && random(i, 2) < 0.5f && i != wanted) row[i] = -kInfinity;
  }
  const size_t last = row.size() - 1;
  if (kind == Kind::Certain) row[wanted] = 300;
  if (kind == Kind::MaskedTarget && row.size() > 1) row[wanted] = -kInfinity;
  if (kind == Kind::HasNan) row[last] = std::numeric_limits<float>::quiet_NaN();
  if (kind == Kind::HasInfinity) row[last / 2] = kInfinity;
  if (kind == Kind::AllMasked) std::fill(row.begin(), row.end(), -kInfinity);
}

double log_total(std::span<const float> row) {
  const double best = *std::max_element(row.begin(), row.end());
  long double sum = 0;
  for (const float x : row) sum += std::exp(x - best);
  return best + std::log(static_cast<double>(sum));
}

bool usable(std::span<const float> row) {
  const auto finite = [](float x) { return x <= std::numeric_limits<float>::max(); };
  return std::all_of(row.begin(), row.end(), finite) &&
         *std::max_element(row.begin(), row.end()) > -kInfinity;
}

TokenScore expected_score(std::span<const float> row, int32_t target) {
  if (!usable(row)) return {kNan, kNan, kNan, -1, 0};
  const double total = log_total(row);
  TokenScore score;
  long double entropy = 0;
  for (const float x : row) {
    const double logprob = x - total;
    if (x > -kInfinity) entropy -= std::exp(logprob) * logprob;
  }
  const float wanted = row[static_cast<size_t>(target)];
  score.logprob = wanted - total;
  score.entropy = static_cast<double>(entropy);
  const auto top = std::max_element(row.begin(), row.end());
  score.top = static_cast<int32_t>(top - row.begin());
  score.top_logprob = *top - total;
  for (int32_t id = 0; id < static_cast<int32_t>(row.size()); ++id) {
    const float x = row[static_cast<size_t>(id)];
    score.rank += x > wanted || (x == wanted && id < target);
  }
  return score;
}

double expected_divergence(std::span<const float> row, std::span<const float> base) {
  if (!usable(row) || !usable(base)) return kNan;
  const double total = log_total(row), base_total = log_total(base);
  long double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double p = std::exp(base[i] - base_total);
    if (p > 0) sum += p * ((base[i] - base_total) - (row[i] - total));
  }
  return static_cast<double>(sum);
}

// The difference of two numbers; equal infinities and two NaNs count as equal.
double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::fabs(a - b);
  return std::isnan(d) ? kInfinity : d;
}

double difference(const TokenScore& a, const TokenScore& b) {
  return std::max({difference(a.logprob, b.logprob), difference(a.entropy, b.entropy),
                   difference(a.top_logprob, b.top_logprob)});
}

}  // namespace

std::vector<ScoreCase> score_cases(Extent extent) {
  if (extent == Extent::Small) return {{33, 8}, {1028, 9}};
  return {{1, 3},     {2, 8},     {31, 9},    {32, 16},   {1000, 8},
          {2049, 40}, {32000, 9}, {50257, 8}, {128256, 9}};
}

std::string label(const ScoreCase& c) { return concat("score, ", c.rows, " rows of ", c.vocab); }

ScoreData make_data(const ScoreCase& c, uint64_t seed) {
  ScoreData data;
  const auto vocab = static_cast<size_t>(c.vocab);
  data.logits.resize(vocab * static_cast<size_t>(c.rows));
  data.base.resize(data.logits.size());
  for (int r = 0; r < c.rows; ++r) {
    const auto row = [&](std::vector<float>& all) {
      return std::span(all).subspan(vocab * static_cast<size_t>(r), vocab);
    };
    const auto target = static_cast<int32_t>(uniform(seed, 1, r) * static_cast<double>(c.vocab));
    data.targets.push_back(target);
    fill(row(data.logits), static_cast<Kind>(r % kKinds), target, seed, 2 * r + 2);
    // For some rows the base is nearly equal to the model, like the same model in fewer bits.
    fill(row(data.base), static_cast<Kind>(r / 2 % kKinds), target, seed, 2 * r + (r % 3 ? 2 : 3));
    data.expected.push_back({expected_score(row(data.logits), target),
                             expected_score(row(data.base), target),
                             expected_divergence(row(data.logits), row(data.base))});
  }
  return data;
}

ScoreCheck check_scores(const ScoreData& data, std::span<const RowComparison> found) {
  check(found.size() == data.expected.size(), "every row has a result");
  ScoreCheck result;
  for (size_t r = 0; r < found.size(); ++r) {
    const RowComparison &a = found[r], &b = data.expected[r];
    result.error =
        std::max({result.error, difference(a.score, b.score), difference(a.base, b.base)});
    const bool ranks = a.score.top == b.score.top && a.score.rank == b.score.rank &&
                       a.base.top == b.base.top && a.base.rank == b.base.rank;
    if (!ranks) result.problem = concat("row ", r, ": wrong top token or wrong rank");
    if (difference(a.divergence, b.divergence) > 1e-9) {
      result.problem =
          concat("row ", r, ": divergence ", a.divergence, " where ", b.divergence, " is right");
    }
  }
  return result;
}

}  // namespace skald::selftest
