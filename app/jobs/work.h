// What a scheduler did, for the manifest and --report.
#pragma once

#include "app/files/json_fwd.h"
#include "app/model/device.h"
#include "engine/schedule/scheduler.h"
#include "engine/step/backend.h"

namespace skald {

Json work_json(const SchedulerCounts& work);

// {"floor_seconds", "share_of_floor"}: the time in which the device could read the weights once for
// each step, and its share of the time that the steps took. Null where it is not known. Measures
// the device's memory, which takes a moment.
Json floor_json(const SchedulerCounts& work, const Executor& executor, const Device& device,
                int threads);

}  // namespace skald
