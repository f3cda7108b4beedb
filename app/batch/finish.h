// What comes out of the model, put together to results and written: the part of a batch's work on
// the host that comes after the model. Owns the jobs that are being computed. Not thread-safe.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "app/batch/job.h"

namespace skald {

struct BatchRun;

// A job comes before the events about it, or alone when it has nothing to compute.
struct BatchNews {
  std::unique_ptr<BatchJob> job;
  std::vector<GenerationEvent> events;
};

class BatchFinisher {
 public:
  explicit BatchFinisher(const BatchRun& run) : run_(run) {}

  void take(BatchNews news);

 private:
  void take_event(GenerationEvent& event);
  void end_sample(BatchPrompt& prompt, GenerationEvent& event);
  void finish(const BatchJob& job);

  const BatchRun& run_;
  std::unordered_map<const BatchJob*, std::unique_ptr<BatchJob>> jobs_;
};

}  // namespace skald
