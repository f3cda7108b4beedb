// Carries out the flags of guess_flags.h for a session: loads a draft model or a head beside the
// model that it guesses for (draft_model.h), and lets the session guess.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "app/generate/draft_model.h"
#include "app/generate/spec_text.h"
#include "engine/schedule/session.h"

namespace skald {

class Guessing {
 public:
  // Opens the draft model's or the head's files, and reads --spec-text. `model`, for which it
  // guesses, and the flags outlive this. `tokenizer` is the model's, and outlives the session.
  // `constrained`: the text follows a grammar, so nothing is guessed.
  Guessing(const GuessFlags& flags, const ModelFlags& model_flags, const OpenedModel& model,
           const Tokenizer& tokenizer, bool constrained);

  // Loads the model, and beside it the draft model. On one device, the model leaves room for it.
  std::unique_ptr<Executor> load(const RunOptions& options, const Device& device);

  // The session, of the executor above, guesses from now on. Called once.
  void start(Session& session);

  const std::optional<LoadedDraft>& draft() const { return loaded_; }

 private:
  Model tapped() const { return draft_.tapped(model_.model); }
  RunOptions beside_draft(RunOptions options, const Device& device);
  void load_draft(const RunOptions& options, const Executor& model);

  const GuessFlags& flags_;
  const OpenedModel& model_;
  const Tokenizer& tokenizer_;
  std::shared_ptr<const NgramText> text_;
  DraftModel draft_;  // or a head
  Device draft_device_;
  int64_t shared_bytes_ = 0;  // of the device that both models use; 0: each has its own
  std::unique_ptr<Executor> executor_;
  std::optional<LoadedDraft> loaded_;
};

}  // namespace skald
