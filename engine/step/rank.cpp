#include "engine/step/rank.h"

namespace skald {

int64_t RankExecutor::run(Step step) {
  check_step(step);
  const Extension extension = extend(step);
  try {
    return run_extended(step, extension);
  } catch (...) {
    take_back(step);
    throw;
  }
}

Picks RankExecutor::pick_and_run(std::span<const PickRequest> requests,
                                 std::span<Sequence* const> sequences) {
  if (!can_run_ahead(requests, sequences)) return {pick(requests), 0};
  const std::vector<SeqRows> next = next_step(sequences);
  const Extension extension = extend(next);
  try {
    return run_ahead(requests, next, extension);
  } catch (...) {  // for example, no token can be picked
    take_back(next);
    throw;
  }
}

Picks RankExecutor::run_ahead(std::span<const PickRequest>, Step, const Extension&) {
  check_failed("can_run_ahead() said no", std::source_location::current());
}

std::vector<SeqRows> next_step(std::span<Sequence* const> sequences) {
  static constexpr int32_t kUnknown = 0;
  std::vector<SeqRows> next;
  for (Sequence* sequence : sequences) next.push_back({sequence, {&kUnknown, 1}, Want::LastRow});
  return next;
}

}  // namespace skald
