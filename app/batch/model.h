// The model as a batch needs it on the host: weights, tokenizer, chat template, and the hashes that
// name these in a manifest.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/files/json.h"
#include "app/model/open.h"
#include "tokenizer/chat/chat_template.h"

namespace skald {

struct BatchModel {
  OpenedModel opened;
  ModelTokenizer tokens;  // the tokenizer is nullptr where the model has none
  std::optional<ChatTemplate> chat_template;
  std::string chat_problem;  // why there is no template
  std::string name;          // the folder or file, as results call the model
  // The names of lines' models and their adapters; empty: adapters have no names.
  std::map<std::string, int> adapters = {};
  Json hashes;  // {"model", "tokenizer", "chat_template"}
};

// chat_template: the value of --chat-template, or "".
BatchModel open_batch_model(const ModelFlags& flags, const std::string& chat_template);

}  // namespace skald
