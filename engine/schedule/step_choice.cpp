#include "engine/schedule/step_choice.h"

#include <algorithm>

namespace skald {
namespace {

// So many rows of the text's pending ones as one step may have, and which of them are wanted.
StepPicks::Rows part_of(ScheduledText& text, int64_t most) {
  const int64_t at = text.sequence.length();
  int64_t count = std::min(text.pending(), most);
  Want want = Want::Nothing;
  if (text.unscored()) {
    // After a preemption what was told is only computed again.
    if (at < text.scored) {
      count = std::min(count, text.scored - at);
    } else {
      want = Want::EveryRow;
    }
  } else if (count == text.pending() && text.generation->max_tokens > 0) {
    want = Want::LastRow;
  }
  return {&text, at, count, want};
}

}  // namespace

void choose_rows(const ScheduledTexts& running, int64_t budget, std::vector<StepPicks::Rows>& out) {
  out.clear();
  std::vector<ScheduledText*> reading;
  for (const auto& text : running) {
    if (text->pending() > 1) {
      reading.push_back(text.get());
    } else if (text->pending() == 1 && budget > 0) {
      out.push_back(part_of(*text, 1));
      --budget;
    }
  }
  if (!reading.empty() && budget > 0) {
    const auto shorter = [](const ScheduledText* a, const ScheduledText* b) {
      return a->pending() < b->pending();
    };
    std::stable_sort(reading.begin() + 1, reading.end(), shorter);
    int64_t others = 0;
    for (size_t i = 1; i < reading.size(); ++i) others += reading[i]->pending();
    const int64_t oldest = std::max(budget - others, (budget + 1) / 2);
    for (size_t i = 0; i < reading.size() && budget > 0; ++i) {
      out.push_back(part_of(*reading[i], i == 0 ? oldest : budget));
      budget -= out.back().count;
    }
  }
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a.text->age < b.text->age; });
}

}  // namespace skald
