// Carries out the flags of guess_flags.h: opens a draft model or a head, loads it beside the model
// that it guesses for, and lets a session guess.
//
// A draft model that cannot guess ends no command, because it changes no text: a line on stderr
// says why, and the command goes on without it. A path that names no model, or a broken file, is an
// error as it is with -m.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "app/generate/guess_flags.h"
#include "app/model/device.h"
#include "app/model/open.h"
#include "engine/schedule/session.h"
#include "models/heads/heads.h"

namespace skald {

// A draft model or a head that was loaded, for reports.
struct LoadedDraft {
  std::string model, device;  // as RunReport has them
  int64_t memory_bytes = 0;   // by its own memory plan
};

// Whether a model runs well enough in the memory that a draft model leaves: all of its weights that
// lay on the device still do, and it has at least half of the context.
bool leaves_enough(const MemoryPlan& alone, const MemoryPlan& beside);

class Guessing {
 public:
  // Opens the draft model's or the head's files. `model`, for which it guesses, and the flags
  // outlive this.
  // `constrained`: the text follows a grammar, so nothing is guessed.
  Guessing(const GuessFlags& flags, const ModelFlags& model_flags, const OpenedModel& model,
           bool constrained);

  // Loads the model, and beside it the draft model. On one device, the model leaves room for it.
  std::unique_ptr<Executor> load(const RunOptions& options, const Device& device);

  // The session, of the executor above, guesses from now on. `tokenizer` is the model's, and
  // outlives the session. Called once.
  void start(Session& session, const Tokenizer& tokenizer);

  const std::optional<LoadedDraft>& draft() const { return loaded_; }

 private:
  void open_draft(const ModelFlags& model_flags);
  void open_own_head();
  std::string draft_name() const;
  void go_on_without(const std::string& reason);
  RunOptions draft_options(const RunOptions& options, int64_t context) const;
  RunOptions beside_draft(RunOptions options, const Device& device);
  void load_draft(const RunOptions& options, const Executor& model);

  const GuessFlags& flags_;
  const OpenedModel& model_;
  Model tapped_;                          // the model as it is loaded: with what the head reads
  std::optional<OpenedModel> draft_;      // the draft model, or the head; not set: there is none
  std::optional<OpenedHead> head_;        // set: draft_ is this head
  std::unique_ptr<Tokenizer> tokenizer_;  // a draft model's
  Device draft_device_;
  int64_t shared_bytes_ = 0;  // of the device that both models use; 0: each has its own
  std::unique_ptr<Executor> executor_;
  std::optional<LoadedDraft> loaded_;
};

}  // namespace skald
