// What a batch says about itself when it is done: in its manifest and on stderr.
#pragma once

#include <set>
#include <string>

#include "app/batch/progress.h"
#include "app/files/json.h"
#include "engine/schedule/scheduler.h"

namespace skald {

Json counts_json(const BatchCounts& counts, const SchedulerCounts& work);

struct BatchReport {
  const BatchProgress& progress;
  const SchedulerCounts& work;
  size_t devices;
  std::set<std::string> unknown_fields;
};
std::string batch_report(const BatchReport& report);  // lines for stderr

}  // namespace skald
