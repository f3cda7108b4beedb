#include "app/generate/guessing.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "app/generate/text_translation.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"
#include "engine/speculate/draft.h"
#include "engine/speculate/head.h"
#include "engine/speculate/ngram.h"
#include "models/families/family.h"
#include "models/text/open_tokenizer.h"

namespace skald {
namespace {

bool has_states(const Model& model) { return model.program().state_floats() > 0; }

// Bytes that a plan takes of its device. Mapped pages are dropped and read again.
int64_t taken(const MemoryPlan& plan) { return plan.needed() - plan.mapped(); }

}  // namespace

bool leaves_enough(const MemoryPlan& alone, const MemoryPlan& beside) {
  const bool fitted = alone.host() == alone.host_by_rule;
  return beside.fits() && !(fitted && beside.host() > alone.host()) &&
         2 * beside.context >= alone.context;
}

Guessing::Guessing(const GuessFlags& flags, const ModelFlags& model_flags, const OpenedModel& model,
                   bool constrained)
    : flags_(flags), model_(model), tapped_(model.model) {
  if (flags.by_draft()) open_draft(model_flags);
  if (flags.by_mtp()) open_own_head();
  if (!draft_) return;
  if (constrained) {
    go_on_without("nothing is guessed where the text follows a schema, regex or grammar");
  } else if (has_states(draft_->model)) {
    go_on_without(concat(printable(draft_->path.string()),
                         " has recurrent layers, which cannot take back a wrong guess"));
  } else if (head_) {
    tapped_.taps = head_->taps;
  }
}

void Guessing::open_draft(const ModelFlags& model_flags) {
  const std::filesystem::path path =
      find_model({.model = flags_.draft, .offline = model_flags.offline});
  if (is_eagle3(path)) {
    head_ = open_eagle3(path, model_);
    draft_ = head_->opened;
    return;
  }
  if (flags_.by == "eagle") {
    fail(Exit::Usage, printable(path.string()),
         ": is no EAGLE-3 head, whose config.json would say so; --spec draft guesses by a model");
  }
  try {
    draft_ = open_model(path);
  } catch (const UnknownFamily& error) {
    go_on_without(error.what());
    return;
  }
  tokenizer_ = open_tokenizer(*draft_).tokenizer;
}

void Guessing::open_own_head() {
  head_ = open_mtp(model_);
  if (head_) {
    draft_ = head_->opened;
  } else if (flags_.by == "mtp") {
    fail(Exit::Usage, printable(model_.path.string()),
         ": has no layer that predicts further tokens, or skald does not know it; without --spec "
         "mtp, the text is the same");
  }
}

// For messages: "the draft model".
std::string Guessing::draft_name() const {
  if (!head_) return "the draft model";
  return head_->taps.empty() ? "the layer that predicts tokens" : "the EAGLE-3 head";
}

void Guessing::go_on_without(const std::string& reason) {
  std::fprintf(stderr, "skald: going on without %s: %s\n", draft_name().c_str(), reason.c_str());
  draft_.reset();
  head_.reset();
  tapped_.taps.clear();
}

// All of the draft model stays on its device: where it had to wait for weights, it would not pay.
RunOptions Guessing::draft_options(const RunOptions& options, int64_t context) const {
  RunOptions own;
  own.context = std::min(context, draft_->model.config.context);
  own.threads = options.threads;
  own.rows = options.rows;
  own.arch_limit = options.arch_limit;
  own.gpu_layers = kAllLayers;
  return own;
}

// The model's options with a bound on its memory, so that the draft model has room beside it.
RunOptions Guessing::beside_draft(RunOptions options, const Device& device) {
  const MemoryPlan alone = plan_memory(tapped_, options, device);
  if (!alone.fits()) return options;  // an error, with or without a draft model
  const MemoryPlan draft =
      plan_memory(draft_->model, draft_options(options, alone.context), draft_device_);
  RunOptions bounded = options;
  bounded.memory = {.bytes = alone.available - taken(draft)};
  if (bounded.memory.bytes > 0) {
    if (leaves_enough(alone, plan_memory(tapped_, bounded, device))) {
      shared_bytes_ = alone.available;
      return bounded;
    }
  }
  go_on_without(concat(head_ ? draft_name() : printable(draft_->path.string()), " needs ",
                       size_text(taken(draft)), ", for which there is no room beside the model",
                       device.cuda ? "; --device-draft cpu has it on the CPU" : ""));
  return options;
}

void Guessing::load_draft(const RunOptions& options, const Executor& model) {
  RunOptions own = draft_options(options, model.context());
  if (shared_bytes_ > 0) {
    own.memory.bytes = std::max<int64_t>(shared_bytes_ - taken(model.plan()), 1);
  }
  executor_ = make_executor(draft_->model, own, draft_device_);
  loaded_ = {draft_->path.string(), executor_->description(), executor_->plan().needed()};
}

std::unique_ptr<Executor> Guessing::load(const RunOptions& options, const Device& asked) {
  const Device device = choose_device(asked, model_.model, options);
  RunOptions own = options;
  if (draft_ || flags_.by_ngram()) own.checkpoints += kGuessCheckpoints;
  // An error about the draft model: the command goes on.
  const auto attempt = [&](const auto& work) {
    if (!draft_) return;
    try {
      work();
    } catch (const Error& error) {
      if (error.code() == Exit::Interrupted) throw;
      go_on_without(error.what());
    } catch (const std::bad_alloc&) {
      go_on_without("there is no memory left for it");
    }
  };
  attempt([&] {
    draft_device_ = {.cuda = device.cuda, .index = device.cuda ? device.rank_gpus().front() : 0};
    if (!flags_.draft_device.empty()) {
      draft_device_ = choose_device(parse_device({.name = flags_.draft_device}), draft_->model,
                                    draft_options(options, 0));
    }
    const std::vector<int> gpus = device.rank_gpus();
    const bool same =
        device.cuda == draft_device_.cuda &&
        (!device.cuda || std::find(gpus.begin(), gpus.end(), draft_device_.index) != gpus.end());
    if (same) own = beside_draft(own, device);
  });
  std::unique_ptr<Executor> executor = make_executor(tapped_, own, device);
  attempt([&] { load_draft(options, *executor); });
  return executor;
}

void Guessing::start(Session& session, const Tokenizer& tokenizer) {
  Proposers proposers;
  if (flags_.by_ngram()) proposers.push_back(std::make_unique<NgramProposer>());
  if (executor_ && head_) {
    proposers.push_back(
        std::make_unique<HeadProposer>(std::move(executor_), std::move(head_->kind)));
  } else if (executor_) {
    std::unique_ptr<Translation> translation;
    if (!same_tokens(tokenizer, *tokenizer_)) {
      translation = std::make_unique<TextTranslation>(tokenizer, std::move(tokenizer_));
    }
    proposers.push_back(std::make_unique<DraftProposer>(
        std::move(executor_), model_.model.config.vocab, std::move(translation)));
  }
  if (proposers.empty()) return;
  session.guess(std::make_unique<Guesser>(std::move(proposers), flags_.most));
}

}  // namespace skald
