#include "engine/schedule/step_choice.h"

#include <algorithm>

namespace skald {
namespace {

// Returns up to `most` of the sample's pending rows, and for which of them the step computes
// results.
StepPicks::Rows part_of(ScheduledSample& sample, int64_t most) {
  const int64_t at = sample.sequence.length();
  int64_t count = std::min(sample.pending(), most);
  Want want = Want::Nothing;
  // Swapped pages follow those that other samples had computed and that are gone.
  if (sample.swapped) count = std::min(count, sample.swapped->first_token() - at);
  if (sample.unscored()) {
    // After a preemption, tokens that were already reported are computed again without logits.
    if (at < sample.scored) {
      count = std::min(count, sample.scored - at);
    } else {
      want = Want::EveryRow;
    }
  } else if (count == sample.pending() && (sample.generation->max_tokens > 0 || sample.pools())) {
    want = Want::LastRow;
  }
  return {&sample, at, count, want};
}

}  // namespace

void choose_rows(const ScheduledSamples& running, int64_t budget,
                 std::vector<StepPicks::Rows>& out) {
  out.clear();
  std::vector<ScheduledSample*> prefills;
  for (const auto& sample : running) {
    if (sample->pending() > 1) {
      prefills.push_back(sample.get());
    } else if (sample->pending() == 1 && budget > 0) {
      out.push_back(part_of(*sample, 1));
      --budget;
    }
  }
  if (!prefills.empty() && budget > 0) {
    const auto shorter = [](const ScheduledSample* a, const ScheduledSample* b) {
      return a->pending() < b->pending();
    };
    std::stable_sort(prefills.begin() + 1, prefills.end(), shorter);
    int64_t others = 0;
    for (size_t i = 1; i < prefills.size(); ++i) others += prefills[i]->pending();
    const int64_t oldest = std::max(budget - others, (budget + 1) / 2);
    for (size_t i = 0; i < prefills.size() && budget > 0; ++i) {
      out.push_back(part_of(*prefills[i], i == 0 ? oldest : budget));
      budget -= out.back().count;
    }
  }
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a.sample->age < b.sample->age; });
}

}  // namespace skald
