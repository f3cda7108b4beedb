#include "app/batch/guessing.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/base/error.h"
#include "engine/speculate/draft_texts.h"
#include "engine/speculate/head_texts.h"

namespace skald {
namespace {

// So many texts of a model with recurrent layers have guesses in a step: each needs a further state
// (Sequence::checkpoint()). Guesses hardly pay where more texts share a step.
constexpr int kMostKeptStates = 16;

constexpr const char* kNoRoom = "there is no room for what guesses need of the model";

// True if guesses leave the model enough of its memory.
bool leaves_enough(const JobLimits& alone, const JobLimits& with) {
  return leaves_enough(alone.plan, with.plan) && with.run.context == alone.run.context &&
         2 * with.run.cache_tokens >= alone.run.cache_tokens;
}

}  // namespace

BatchGuessing::BatchGuessing(const GuessFlags& flags, const ModelFlags& model_flags,
                             const BatchModel& model)
    : flags_(flags),
      model_(model),
      text_(read_spec_text(flags, model.tokens.tokenizer.get())),
      draft_(flags, model_flags, model.opened) {
  if (!draft_.opened()) return;
  if (!draft_.head() && (!model.tokens.tokenizer || !draft_.has_tokenizer())) {
    draft_.go_on_without("one of the models has no tokenizer, so their tokens cannot be compared");
  }
}

MemoryPlan BatchGuessing::plan_of(int64_t cache_tokens) const {
  RunOptions options = options_;
  options.cache_tokens = cache_tokens;
  return plan_memory(draft_.model(), options, device_);
}

// Chooses the size of the draft model's cache. Returns the bytes that it takes in all; 0: it has no
// room.
int64_t BatchGuessing::choose_cache(const JobLimits& alone, int64_t bytes) {
  const auto fits = [&](int64_t tokens) {
    const MemoryPlan plan = plan_of(tokens);
    return plan.fits() && taken(plan) <= bytes;
  };
  if (!fits(options_.context)) return 0;
  options_.cache_tokens = most_tokens(options_.context, alone.run.cache_tokens, fits);
  return std::max<int64_t>(taken(plan_of(options_.cache_tokens)), 1);
}

// The limits of the model with what guesses need of it: rows that a head reads, and recurrent
// states that wrong guesses go back to. Nothing: there is no room.
std::optional<JobLimits> BatchGuessing::for_guesses(const JobLimits& alone, const RunOptions& asked,
                                                    const Device& device) const {
  const bool states = model_.opened.model.program().state_floats() > 0;
  if (!states && !draft_.head()) return alone;
  RunOptions more = asked;
  more.checkpoints = states ? std::min(kMostKeptStates, alone.run.sequences) : 0;
  more.context = alone.run.context;
  try {
    JobLimits with = choose_job_limits(tapped(), more, alone.run.sequences, device);
    with.plan.context_by = alone.plan.context_by;
    if (leaves_enough(alone, with)) return with;
  } catch (const Error& error) {
    if (error.code() != Exit::Memory) throw;
  }
  return {};
}

JobLimits BatchGuessing::beside_draft(const JobLimits& alone, const RunOptions& asked,
                                      const Device& device) {
  device_ = draft_.device(device, asked);
  options_ = draft_.options(alone.run, alone.run.context);
  options_.sequences = alone.run.sequences;
  const MemoryPlan least = plan_of(options_.context);
  if (!share_memory(device, device_)) {
    if (choose_cache(alone, least.available / (device_.cuda ? 1 : 2)) == 0) {
      draft_.go_on_without_room(device_, taken(least));
    }
    return alone;
  }
  const int64_t weights = taken(least) - cache_bytes(least);
  const int64_t left =
      alone.plan.available - (taken(alone.plan) - cache_bytes(alone.plan)) - weights;
  const int64_t bytes = choose_cache(alone, weights + left / 4);
  if (bytes > 0) {
    RunOptions bounded = asked;
    bounded.memory = {.bytes = alone.plan.available - bytes};
    bounded.context = alone.run.context;
    bounded.checkpoints = alone.run.checkpoints;
    try {
      JobLimits beside = choose_job_limits(tapped(), bounded, alone.run.sequences, device);
      if (leaves_enough(alone, beside)) {
        shared_bytes_ = alone.plan.available;
        beside.plan.context_by = alone.plan.context_by;
        return beside;
      }
    } catch (const Error& error) {
      if (error.code() != Exit::Memory) throw;
    }
  }
  draft_.go_on_without_room(device, std::max(bytes, taken(least)));
  return alone;
}

JobLimits BatchGuessing::choose_limits(const RunOptions& asked, int sequences,
                                       const std::vector<Device>& on) {
  const Device& device = on.front();
  const JobLimits alone = choose_job_limits(model_.opened.model, asked, sequences, device);
  if (draft_.opened() && on.size() > 1 && !flags_.draft_device.empty()) {
    fail(Exit::Usage,
         "--device-draft names one device, and --devices several; without it, each of them has a "
         "draft model");
  }
  JobLimits limits = alone;
  draft_.attempt([&] {
    if (const auto with = for_guesses(alone, asked, device)) {
      limits = beside_draft(*with, asked, device);
      if (draft_.opened() && !leaves_enough(alone, limits)) draft_.go_on_without(kNoRoom);
    } else {
      draft_.go_on_without(kNoRoom);
    }
  });
  if (draft_.opened()) return limits;
  if (!flags_.by_ngram()) return alone;
  const auto with = for_guesses(alone, asked, device);
  if (!with) std::fprintf(stderr, "skald: nothing is guessed: %s\n", kNoRoom);
  return with.value_or(alone);
}

void BatchGuessing::load(std::span<const std::unique_ptr<Executor>> executors,
                         const std::vector<Device>& on) {
  draft_.attempt([&] {
    std::vector<std::unique_ptr<TextsProposer>> drafts;
    for (size_t i = 0; i < executors.size(); ++i) {
      RunOptions options = options_;
      if (shared_bytes_ > 0) {
        options.memory.bytes = std::max<int64_t>(shared_bytes_ - taken(executors[i]->plan()), 1);
      }
      const Device device = i == 0 ? device_ : draft_.device(on[i], options_);
      auto executor = make_executor(draft_.model(), options, device);
      loaded_ = {draft_.path(), executor->description(), executor->plan().needed()};
      if (draft_.head()) {
        drafts.push_back(std::make_unique<HeadTexts>(std::move(executor), draft_.head()->kind));
      } else {
        drafts.push_back(
            std::make_unique<DraftTexts>(std::move(executor), model_.opened.model.config.vocab,
                                         draft_.translations(*model_.tokens.tokenizer)));
      }
    }
    drafts_ = std::move(drafts);
  });
  if (!draft_.opened()) loaded_.reset();
}

std::vector<GuessPlan> BatchGuessing::plans(size_t executors) const {
  std::vector<GuessPlan> plans(executors);
  for (size_t i = 0; i < executors; ++i) {
    GuessPlan& plan = plans[i];
    plan.ngram = flags_.by_ngram();
    plan.file = text_;
    plan.draft = drafts_.empty() ? nullptr : drafts_[i].get();
    plan.most = plan.ngram || plan.draft ? flags_.most : 0;
  }
  return plans;
}

}  // namespace skald
