#include "app/generate/guessing.h"

#include <algorithm>
#include <utility>

#include "engine/speculate/ngram.h"
#include "engine/speculate/one_text.h"

namespace skald {

Guessing::Guessing(const GuessFlags& flags, const ModelFlags& model_flags, const OpenedModel& model,
                   const Tokenizer& tokenizer, bool constrained)
    : flags_(flags),
      model_(model),
      tokenizer_(tokenizer),
      text_(read_spec_text(flags, &tokenizer)),
      draft_(flags, model_flags, model) {
  if (draft_.opened() && constrained) {
    draft_.go_on_without("nothing is guessed where the text follows a schema, regex or grammar");
  }
}

// The model's options with a bound on its memory, so that the draft model has room beside it.
RunOptions Guessing::beside_draft(RunOptions options, const Device& device) {
  const MemoryPlan alone = plan_memory(tapped(), options, device);
  if (!alone.fits()) return options;  // an error, with or without a draft model
  const MemoryPlan draft =
      plan_memory(draft_.model(), draft_.options(options, alone.context), draft_device_);
  RunOptions bounded = options;
  bounded.memory = {.bytes = alone.available - taken(draft)};
  if (bounded.memory.bytes > 0) {
    if (leaves_enough(alone, plan_memory(tapped(), bounded, device))) {
      shared_bytes_ = alone.available;
      return bounded;
    }
  }
  draft_.go_on_without_room(device, taken(draft));
  return options;
}

void Guessing::load_draft(const RunOptions& options, const Executor& model) {
  RunOptions own = draft_.options(options, model.context());
  if (shared_bytes_ > 0) {
    own.memory.bytes = std::max<int64_t>(shared_bytes_ - taken(model.plan()), 1);
  }
  executor_ = make_executor(draft_.model(), own, draft_device_);
  loaded_ = {draft_.path(), executor_->description(), executor_->plan().needed()};
}

std::unique_ptr<Executor> Guessing::load(const RunOptions& options, const Device& asked) {
  const Device device = choose_device(asked, model_.model, options);
  RunOptions own = options;
  if (draft_.opened() || flags_.by_ngram()) own.checkpoints += kGuessCheckpoints;
  draft_.attempt([&] {
    draft_device_ = draft_.device(device, options);
    if (share_memory(device, draft_device_)) own = beside_draft(own, device);
  });
  std::unique_ptr<Executor> executor = make_executor(tapped(), own, device);
  draft_.attempt([&] { load_draft(options, *executor); });
  return executor;
}

void Guessing::start(Session& session) {
  Proposers proposers;
  if (flags_.by_ngram()) proposers.push_back(std::make_unique<NgramProposer>(std::move(text_)));
  if (executor_ && draft_.head()) {
    proposers.push_back(std::make_unique<HeadProposer>(std::move(executor_), draft_.head()->kind));
  } else if (executor_) {
    proposers.push_back(std::make_unique<DraftProposer>(
        std::move(executor_), model_.model.config.vocab, draft_.translations(tokenizer_)));
  }
  if (proposers.empty()) return;
  session.guess(std::make_unique<Guesser>(std::move(proposers), flags_.most));
}

}  // namespace skald
