#include "cuda/run/scorer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/gpu/check.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind, Stream stream) {
  SKALD_CUDA(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream));
}

}  // namespace

DeviceScorer::DeviceScorer(int64_t vocab, int64_t rows)
    : vocab_(vocab),
      most_rows_(rows),
      host_list_(score_list_bytes(rows), "scoring"),
      host_sums_(score_sums_bytes(rows), "scoring"),
      host_divergences_(divergence_bytes(rows), "scoring"),
      list_(score_list_bytes(rows), "scoring"),
      sums_(score_sums_bytes(rows), "scoring"),
      divergences_(divergence_bytes(rows), "scoring") {}

void DeviceScorer::begin(std::span<const int32_t> targets, Stream stream) {
  check(static_cast<int64_t>(targets.size()) <= most_rows_, "rows that the scorer has room for");
  targets_ = targets.size();
  rows_.clear();
  for (size_t i = 0; i < targets.size(); ++i) {
    check(targets[i] < vocab_, "a target has a logit");
    if (targets[i] >= 0) rows_.push_back(static_cast<int32_t>(i));
  }
  int32_t* list = std::copy(rows_.begin(), rows_.end(), host_list_.as<int32_t>());
  for (const int32_t row : rows_) *list++ = targets[static_cast<size_t>(row)];
  copy(list_.as<void>(), host_list_.as<void>(), score_list_bytes(count()), cudaMemcpyHostToDevice,
       stream);
}

void DeviceScorer::score(const Part& part, Stream stream) {
  launch_score({part.logits, vocab_, part.gathered ? nullptr : rows(part.first),
                rows(count()) + part.first, part.count, sums_.as<ScoreSums>() + part.first},
               stream);
}

void DeviceScorer::compare(const Part& part, const DeviceScorer& base, const float* base_logits,
                           Stream stream) {
  launch_divergence(
      {part.logits, base_logits, vocab_, part.gathered ? nullptr : rows(part.first), part.count,
       sums_.as<ScoreSums>() + part.first, base.sums_.as<ScoreSums>() + part.first,
       divergences_.as<DivergenceSums>() + part.first},
      stream);
}

// The same arithmetic as score_row(), on sums that the device has computed.
TokenScore DeviceScorer::score_of(int i) const {
  const ScoreSums& sums = host_sums_.as<ScoreSums>()[i];
  if (sums.top < 0) return {kNan, kNan, kNan, -1, 0};
  const double log_total = std::log(sums.weights);
  TokenScore score;
  score.top = sums.top;
  score.top_logprob = -log_total;
  score.logprob = double{sums.wanted} - sums.best - log_total;
  score.entropy = log_total - sums.weighted / sums.weights;
  score.rank = sums.rank;
  return score;
}

std::vector<TokenScore> DeviceScorer::scores(Stream stream) {
  copy(host_sums_.as<void>(), sums_.as<void>(), score_sums_bytes(count()), cudaMemcpyDeviceToHost,
       stream);
  SKALD_CUDA(cudaStreamSynchronize(stream));
  std::vector<TokenScore> result(targets_);
  for (int i = 0; i < count(); ++i) {
    result[static_cast<size_t>(rows_[static_cast<size_t>(i)])] = score_of(i);
  }
  return result;
}

std::vector<RowComparison> DeviceScorer::comparisons(DeviceScorer& base, Stream stream) {
  const std::vector<TokenScore> own = scores(stream), of_base = base.scores(stream);
  copy(host_divergences_.as<void>(), divergences_.as<void>(), divergence_bytes(count()),
       cudaMemcpyDeviceToHost, stream);
  SKALD_CUDA(cudaStreamSynchronize(stream));
  std::vector<RowComparison> result(targets_);
  for (int i = 0; i < count(); ++i) {
    const auto row = static_cast<size_t>(rows_[static_cast<size_t>(i)]);
    result[row] = {own[row], of_base[row], kNan};
    if (own[row].top < 0 || of_base[row].top < 0) continue;
    const DivergenceSums& sums = host_divergences_.as<DivergenceSums>()[i];
    const double log_total = host_sums_.as<ScoreSums>()[i].best + std::log(sums.weights);
    const double base_log_total =
        base.host_sums_.as<ScoreSums>()[i].best + std::log(sums.base_weights);
    result[row].divergence = sums.shift / sums.base_weights - (base_log_total - log_total);
  }
  return result;
}

}  // namespace skald::cuda
