// Which rows the next step has: one for each text that is being written, and with what is left
// parts of the prompts that are being read. Of these the oldest gets at least half, and the others
// the rest, the shortest first: a long prompt neither holds up the short ones nor waits for them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/schedule/scheduled_text.h"
#include "engine/schedule/step_picks.h"

namespace skald {

// By age; at most `budget` rows.
void choose_rows(const ScheduledTexts& running, int64_t budget, std::vector<StepPicks::Rows>& out);

}  // namespace skald
