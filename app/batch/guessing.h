// Carries out the flags of guess_flags.h for a batch: leaves room for a draft model or a head
// beside the model, and loads one on each device, which guesses for all texts of a step together
// (engine/schedule/step_guesses.h).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "app/batch/model.h"
#include "app/generate/draft_model.h"
#include "app/generate/spec_text.h"
#include "app/jobs/limits.h"
#include "engine/schedule/step_guesses.h"

namespace skald {

class BatchGuessing {
 public:
  // Opens the draft model's files, and reads --spec-text. `flags` and `model`, for which it
  // guesses, outlive this.
  BatchGuessing(const GuessFlags& flags, const ModelFlags& model_flags, const BatchModel& model);

  // As choose_job_limits(), with room for the draft model, whose cache gets a quarter at most of
  // what both models' weights leave, and for the recurrent states that guesses need. The context is
  // the same as without guesses, as results depend on it.
  JobLimits choose_limits(const RunOptions& asked, int sequences, const std::vector<Device>& on);

  // The model as it is loaded: with what the head reads.
  Model tapped() const { return draft_.tapped(model_.opened.model); }

  // Loads a draft model beside each executor, which were made by choose_limits().
  void load(std::span<const std::unique_ptr<Executor>> executors, const std::vector<Device>& on);

  // What the scheduler of each executor guesses, after load(). The draft models live as long as
  // this.
  std::vector<GuessPlan> plans(size_t executors) const;

  // Says what draft model each device has. Not set: there is no draft model.
  const std::optional<LoadedDraft>& draft() const { return loaded_; }

 private:
  std::optional<JobLimits> for_guesses(const JobLimits& alone, const RunOptions& asked,
                                       const Device& device) const;
  JobLimits beside_draft(const JobLimits& alone, const RunOptions& asked, const Device& device);
  MemoryPlan plan_of(int64_t cache_tokens) const;
  int64_t choose_cache(const JobLimits& alone, int64_t bytes);

  const GuessFlags& flags_;
  const BatchModel& model_;
  std::shared_ptr<const NgramText> text_;
  DraftModel draft_;
  Device device_;             // the draft model's, beside the first executor
  RunOptions options_;        // the draft model's
  int64_t shared_bytes_ = 0;  // of the device that both models use; 0: each has its own
  std::vector<std::unique_ptr<TextsProposer>> drafts_;  // of each executor
  std::optional<LoadedDraft> loaded_;
};

}  // namespace skald
