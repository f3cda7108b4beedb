// Opens the chat template of a command: the model's own, a file's, or a built-in one.
#pragma once

#include <filesystem>
#include <string>

#include "models/text/chat_templates.h"
#include "tokenizer/chat/chat_template.h"

namespace skald {

// `chosen` is the value of --chat-template, a built-in name or a file; empty: the model's own
// template. Throws Error(Exit::Model) with the built-in names if the model has no template.
ChatTemplate open_chat_template(const std::filesystem::path& model, const std::string& chosen);

}  // namespace skald
