#include "app/generate/draft_model.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "app/files/json.h"
#include "app/generate/text_translation.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"
#include "models/families/family.h"
#include "models/text/open_tokenizer.h"

namespace skald {

Json draft_json(const LoadedDraft& draft) {
  return {{"model", draft.model}, {"device", draft.device}, {"memory_bytes", draft.memory_bytes}};
}

int64_t taken(const MemoryPlan& plan) { return plan.needed() - plan.mapped(); }

bool leaves_enough(const MemoryPlan& alone, const MemoryPlan& beside) {
  const bool fitted = alone.host() == alone.host_by_rule;
  return beside.fits() && !(fitted && beside.host() > alone.host()) &&
         2 * beside.context >= alone.context;
}

bool share_memory(const Device& a, const Device& b) {
  if (a.cuda != b.cuda) return false;
  const std::vector<int> of_a = a.rank_gpus(), of_b = b.rank_gpus();
  return !a.cuda || std::any_of(of_b.begin(), of_b.end(), [&](int gpu) {
    return std::find(of_a.begin(), of_a.end(), gpu) != of_a.end();
  });
}

DraftModel::DraftModel(const GuessFlags& flags, const ModelFlags& model_flags,
                       const OpenedModel& model)
    : flags_(flags), model_(model) {
  if (flags.by_draft()) open(model_flags);
  if (flags.by_mtp()) open_own_head();
  if (opened_ && opened_->model.program().state_floats() > 0) {
    go_on_without(
        concat(printable(path()), " has recurrent layers, which cannot take back a wrong guess"));
  }
}

void DraftModel::open(const ModelFlags& model_flags) {
  const std::filesystem::path path =
      find_model({.model = flags_.draft, .offline = model_flags.offline});
  if (is_eagle3(path)) {
    head_ = open_eagle3(path, model_);
    opened_ = head_->opened;
    return;
  }
  if (flags_.by == "eagle") {
    fail(Exit::Usage, printable(path.string()),
         ": is no EAGLE-3 head, whose config.json would say so; --spec draft guesses by a model");
  }
  try {
    opened_ = open_model(path);
  } catch (const UnknownFamily& error) {
    go_on_without(error.what());
    return;
  }
  tokenizer_ = open_tokenizer(*opened_).tokenizer;
}

void DraftModel::open_own_head() {
  head_ = open_mtp(model_);
  if (head_) {
    opened_ = head_->opened;
  } else if (flags_.by == "mtp") {
    fail(Exit::Usage, printable(model_.path.string()),
         ": has no layer that predicts further tokens, or skald does not know it; without --spec "
         "mtp, the text is the same");
  }
}

// For messages: "the draft model".
std::string DraftModel::name() const {
  if (!head_) return "the draft model";
  return head_->taps.empty() ? "the layer that predicts tokens" : "the EAGLE-3 head";
}

Model DraftModel::tapped(Model model) const {
  if (head_) model.taps = head_->taps;
  return model;
}

void DraftModel::go_on_without(const std::string& reason) {
  std::fprintf(stderr, "skald: going on without %s: %s\n", name().c_str(), reason.c_str());
  opened_.reset();
  head_.reset();
}

void DraftModel::go_on_without_room(const Device& device, int64_t bytes) {
  go_on_without(concat(head_ ? name() : printable(path()), " needs ", size_text(bytes),
                       ", for which there is no room beside the model",
                       device.cuda ? "; --device-draft cpu has it on the CPU" : ""));
}

RunOptions DraftModel::options(const RunOptions& of_model, int64_t context) const {
  RunOptions own;
  own.context = std::min(context, opened_->model.config.context);
  own.threads = of_model.threads;
  own.rows = of_model.rows;
  own.arch_limit = of_model.arch_limit;
  own.gpu_layers = kAllLayers;
  return own;
}

Device DraftModel::device(const Device& device, const RunOptions& of_model) const {
  if (!flags_.draft_device.empty()) {
    return choose_device(parse_device({.name = flags_.draft_device}), opened_->model,
                         options(of_model, 0));
  }
  return {.cuda = device.cuda, .index = device.cuda ? device.rank_gpus().front() : 0};
}

Translations DraftModel::translations(const Tokenizer& tokenizer) const {
  if (same_tokens(tokenizer, *tokenizer_)) return {};
  return
      [&tokenizer, own = tokenizer_] { return std::make_unique<TextTranslation>(tokenizer, own); };
}

}  // namespace skald
