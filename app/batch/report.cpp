#include "app/batch/report.h"

#include <cmath>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {

Json counts_json(const BatchCounts& counts, const SchedulerCounts& work) {
  const auto milliseconds = [](double seconds) { return std::round(seconds * 1000) / 1000; };
  return {{"done", counts.done.load()},
          {"failed", counts.failed.load()},
          {"skipped", counts.skipped.load()},
          {"done_before", counts.earlier.load()},
          {"tokens_in", counts.tokens_in.load()},
          {"tokens_out", counts.tokens_out.load()},
          {"steps", work.steps},
          {"shared_tokens", work.shared_tokens},
          {"preemptions", work.preemptions},
          {"memory_ran_out", work.lowered},
          {"busy_seconds", milliseconds(work.busy_seconds)},
          {"gpu_seconds", milliseconds(work.device_seconds)}};
}

std::string batch_report(const BatchReport& report) {
  const SchedulerCounts& work = report.work;
  const double seconds = report.progress.seconds() * static_cast<double>(report.devices);
  const auto percent = [&](double part) { return std::lround(100 * part / seconds); };
  std::string text =
      concat("skald: ", report.progress.summary(report.progress.seconds()), "\nskald: ", work.steps,
             " steps, the model was busy ", percent(work.busy_seconds), " % of the time");
  if (work.device_seconds > 0) text += concat(", the GPU ", percent(work.device_seconds), " %");
  if (work.shared_tokens > 0) text += concat(", ", work.shared_tokens, " tokens shared");
  if (work.preemptions > 0) text += concat(", ", work.preemptions, " texts begun again");
  if (work.lowered > 0) {
    text += concat("\nskald: the device's memory ran out ", work.lowered,
                   " times, and less was computed at a time; see --max-seqs and "
                   "--max-tokens-per-step");
  }
  std::string names;
  for (const std::string& name : report.unknown_fields) {
    names += concat(names.empty() ? "" : ", ", printable(name, 60));
  }
  if (!names.empty()) text += concat("\nskald: fields without effect: ", names);
  return text + "\n";
}

}  // namespace skald
