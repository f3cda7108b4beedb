#include "app/jobs/work.h"

#include <cmath>

#include "app/files/json.h"
#include "app/generate/guess_flags.h"

namespace skald {
namespace {

double milliseconds(double seconds) { return std::round(seconds * 1000) / 1000; }

}  // namespace

Json work_json(const SchedulerCounts& work) {
  Json json = {{"steps", work.steps},
               {"shared_tokens", work.shared_tokens},
               {"preemptions", work.preemptions},
               {"swapped", work.swapped},
               {"swapped_tokens", work.swapped_tokens},
               {"begun_again", work.preemptions - work.swapped},
               {"memory_ran_out", work.lowered},
               {"busy_seconds", milliseconds(work.busy_seconds)},
               {"gpu_seconds", milliseconds(work.device_seconds)}};
  if (work.guesses.steps > 0 || work.guesses.draft_seconds > 0)
    json["guesses"] = guesses_json(work.guesses);
  return json;
}

Json floor_json(const SchedulerCounts& work, const Executor& executor, const Device& device,
                int threads) {
  const double bandwidth = measured_bandwidth(device, executor, threads);
  if (bandwidth <= 0 || work.busy_seconds <= 0) {
    return {{"floor_seconds", nullptr}, {"share_of_floor", nullptr}};
  }
  const double bytes = static_cast<double>(work.steps * executor.program().weight_bytes());
  const double seconds = bytes / bandwidth;
  return {{"floor_seconds", milliseconds(seconds)},
          {"share_of_floor", milliseconds(seconds / work.busy_seconds)}};
}

}  // namespace skald
