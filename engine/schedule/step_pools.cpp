#include "engine/schedule/step_pools.h"

#include <algorithm>
#include <cmath>

namespace skald {
namespace {

void add_row(ScheduledSample& sample, std::span<const float> row) {
  if (sample.generation->pooling != Pooling::Mean) {
    sample.pooled.assign(row.begin(), row.end());
    return;
  }
  sample.pooled.resize(row.size());
  for (size_t i = 0; i < row.size(); ++i) sample.pooled[i] += row[i];
  ++sample.scored;
}

}  // namespace

void pool_rows(Executor& executor, std::span<const StepPicks::Rows> step) {
  int64_t row = 0;
  for (const StepPicks::Rows& part : step) {
    const int64_t end = row + part.wanted();
    if (part.sample->pools()) {
      for (int64_t r = row; r < end; ++r) add_row(*part.sample, executor.hidden(r));
    }
    row = end;
  }
}

std::vector<float> pooled_vector(const ScheduledSample& sample) {
  const bool mean = sample.generation->pooling == Pooling::Mean;
  const double count = mean ? static_cast<double>(sample.prompt_length()) : 1;
  std::vector<float> vector;
  vector.reserve(sample.pooled.size());
  for (const double sum : sample.pooled) vector.push_back(static_cast<float>(sum / count));
  const bool finite =
      std::all_of(vector.begin(), vector.end(), [](float value) { return std::isfinite(value); });
  return finite ? vector : std::vector<float>();
}

}  // namespace skald
