// Hidden rows of a step (Executor::hidden()) become the vectors of prompts: Generation::pooling.
// The sum of Pooling::Mean is in double and in the order of the tokens, so a vector does not depend
// on how a prompt is divided into steps.
#pragma once

#include <span>
#include <vector>

#include "engine/schedule/scheduled_sample.h"
#include "engine/schedule/step_picks.h"
#include "engine/step/backend.h"

namespace skald {

// Takes the wanted rows of the samples that pool. Throws Error(Exit::Memory); the step may then be
// run again, and no row counts twice.
void pool_rows(Executor& executor, std::span<const StepPicks::Rows> step);

// The vector of a sample whose rows are all taken; empty if it has NaN or infinity.
std::vector<float> pooled_vector(const ScheduledSample& sample);

}  // namespace skald
