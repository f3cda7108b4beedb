// The chat template of a command: the model's own, one of a file, or a built-in one by its name.
#pragma once

#include <filesystem>
#include <string>

#include "models/text/chat_templates.h"
#include "tokenizer/chat/chat_template.h"

namespace skald {

// chosen: what --chat-template says, a name or a file; empty: the model's own. Throws
// Error(Exit::Model) where there is none, and says which names there are.
ChatTemplate open_chat_template(const std::filesystem::path& model, const std::string& chosen);

}  // namespace skald
