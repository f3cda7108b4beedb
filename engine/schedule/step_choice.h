// Chooses the rows of the next step: one row for each sample in decode; the remaining rows go to
// prompts in prefill. The oldest prompt gets at least half of the remaining rows, and the other
// prompts share the rest, shortest first. So a long prompt neither delays short ones nor waits for
// them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/schedule/scheduled_sample.h"
#include "engine/schedule/step_picks.h"

namespace skald {

// The result is ordered by age and has at most `budget` rows.
void choose_rows(const ScheduledSamples& running, int64_t budget,
                 std::vector<StepPicks::Rows>& out);

}  // namespace skald
