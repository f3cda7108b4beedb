#include "app/batch/model.h"

#include "app/files/input.h"
#include "app/model/chat_template.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/sha256.h"
#include "models/fingerprint.h"
#include "models/text/tokenizer_hash.h"

namespace skald {
namespace {

// A hash of the texts from which the template is made.
std::string template_hash(const std::filesystem::path& model, const std::string& chosen) {
  Sha256 hash;
  if (const auto builtin = builtin_template(chosen)) {
    hash.add_field(builtin->text);
  } else if (!chosen.empty()) {
    hash.add_field(read_text(chosen));
  } else {
    for (const NamedTemplate& one : find_chat_templates(model)) {
      hash.add_field(one.name).add_field(one.text);
    }
  }
  return hash.hex();
}

// The base model has its own name, and the one that the command gave it.
void name_adapters(const ModelFlags& flags, BatchModel& model) {
  if (!model.opened.model.adapters || model.opened.model.adapters->size() < 2) return;
  int number = 0;
  for (const Adapter& adapter : *model.opened.model.adapters) {
    if (number > 0) model.adapters[adapter.name] = number;
    ++number;
  }
  for (const std::string& name : {model.name, flags.model}) {
    if (name.empty()) continue;
    const auto [place, is_new] = model.adapters.try_emplace(name, 0);
    if (is_new || place->second == 0) continue;
    fail(Exit::Usage, "--lora: '", printable(name, 80),
         "' is the name of the model itself; give the adapter another name");
  }
}

}  // namespace

BatchModel open_batch_model(const ModelFlags& flags, const std::string& chat_template) {
  BatchModel model;
  model.opened = open_model(flags);
  check_context(flags, model.opened.model.config);
  model.tokens = open_tokenizer_if_any(model.opened);
  model.name = model_name(model.opened);
  name_adapters(flags, model);
  model.hashes = {{"model", model_hash(model.opened)}};
  if (!model.tokens.tokenizer) {
    model.chat_problem = "the model has no tokenizer: give prompts as token ids";
    return model;
  }
  model.hashes["tokenizer"] = tokenizer_hash(*model.tokens.tokenizer);
  try {
    model.chat_template = open_chat_template(model.opened.path, chat_template);
    model.hashes["chat_template"] = template_hash(model.opened.path, chat_template);
  } catch (const Error& error) {
    if (!chat_template.empty()) throw;  // a template that the user named must exist
    model.chat_problem = error.what();  // prompts need no template
  }
  return model;
}

}  // namespace skald
