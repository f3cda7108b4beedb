#include "engine/step/backend.h"

#include "engine/base/error.h"

namespace skald {

std::vector<Picked> Executor::pick(std::span<const PickRequest> requests) {
  std::vector<Picked> picked;
  picked.reserve(requests.size());
  for (size_t row = 0; row < requests.size(); ++row) {
    picked.push_back(sampler_.pick(logits(static_cast<int64_t>(row)), *requests[row].params,
                                   requests[row].context));
  }
  return picked;
}

void Executor::read_state(int32_t, std::span<std::byte>) {
  check(false, "an executor without recurrent states is asked for none");
}

void Executor::write_state(int32_t, std::span<const std::byte>) {
  check(false, "an executor without recurrent states is given none");
}

Picks Executor::pick_and_run(std::span<const PickRequest> requests, std::span<Sequence* const>) {
  return {pick(requests), 0};
}

std::vector<TokenScore> Executor::score(std::span<const int32_t> targets) {
  std::vector<TokenScore> scores(targets.size());
  for (size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    scores[row] = score_row(logits(static_cast<int64_t>(row)), targets[row]);
  }
  return scores;
}

std::vector<RowComparison> Executor::compare(Executor& base, std::span<const int32_t> targets) {
  std::vector<RowComparison> comparisons(targets.size());
  for (size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    const int64_t index = static_cast<int64_t>(row);
    comparisons[row] = compare_rows(logits(index), base.logits(index), targets[row]);
  }
  return comparisons;
}

}  // namespace skald
