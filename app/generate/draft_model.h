// What guesses for a model beside it: a draft model or a head, as the flags of guess_flags.h name
// it. Opens its files, and plans its memory.
//
// One that cannot guess ends no command, because it changes no text: a line on stderr says why, and
// the command goes on without it. A path that names no model, or a broken file, is an error as it
// is with -m.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "app/files/json_fwd.h"
#include "app/generate/guess_flags.h"
#include "app/model/device.h"
#include "app/model/open.h"
#include "engine/base/error.h"
#include "engine/speculate/draft_texts.h"
#include "models/heads/heads.h"

namespace skald {

// A draft model or a head that was loaded, for reports.
struct LoadedDraft {
  std::string model, device;  // as RunReport has them
  int64_t memory_bytes = 0;   // by its own memory plan
};

Json draft_json(const LoadedDraft& draft);

// True if the model runs well enough in the memory that a draft model leaves: all of its weights
// that lay on the device still do, and it has at least half of the context.
bool leaves_enough(const MemoryPlan& alone, const MemoryPlan& beside);

// Bytes that a plan takes of its device. Mapped pages are dropped and read again.
int64_t taken(const MemoryPlan& plan);

class DraftModel {
 public:
  // Opens the files. `flags` and `model`, for which it guesses, outlive this.
  DraftModel(const GuessFlags& flags, const ModelFlags& model_flags, const OpenedModel& model);

  bool opened() const { return opened_.has_value(); }  // false: there is none, or none any more
  const Model& model() const { return opened_->model; }
  std::string path() const { return opened_->path.string(); }
  bool has_tokenizer() const { return tokenizer_ != nullptr; }
  const std::optional<OpenedHead>& head() const { return head_; }  // set: it is this head

  // The model for which it guesses, with what the head reads.
  Model tapped(Model model) const;

  void go_on_without(const std::string& reason);
  // For want of room beside the model, which runs on `device`.
  void go_on_without_room(const Device& device, int64_t bytes);
  // Does work for it. After an error in that, the command goes on without it.
  template <class Work>
  void attempt(const Work& work) {
    if (!opened_) return;
    try {
      work();
    } catch (const Error& error) {
      if (error.code() == Exit::Interrupted) throw;
      go_on_without(error.what());
    } catch (const std::bad_alloc&) {
      go_on_without("there is no memory left for it");
    }
  }

  // How it runs beside a model with these options. All of it stays on its device: where it had to
  // wait for weights, it would not pay.
  RunOptions options(const RunOptions& of_model, int64_t context) const;
  // The draft model's device, if the model runs on `device`.
  Device device(const Device& device, const RunOptions& of_model) const;

  // For DraftTexts: from the text's tokenizer, which outlives the translations, to its own.
  Translations translations(const Tokenizer& tokenizer) const;

 private:
  void open(const ModelFlags& model_flags);
  void open_own_head();
  std::string name() const;

  const GuessFlags& flags_;
  const OpenedModel& model_;
  std::optional<OpenedModel> opened_;
  std::optional<OpenedHead> head_;
  std::shared_ptr<const Tokenizer> tokenizer_;  // a draft model's
};

// True if both devices have the same memory.
bool share_memory(const Device& a, const Device& b);

}  // namespace skald
