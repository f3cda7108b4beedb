// Finds a model's chat template: in its files, in a file of the user's, or under a name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/open.h"
#include "tokenizer/chat/chat_template.h"

namespace skald {

// Those in the model's own files; empty when it has none.
std::vector<NamedTemplate> find_chat_templates(const std::filesystem::path& model);

// The form of prompt that a template writes, by what its text contains: "chatml", "llama3".
std::string_view template_kind(std::string_view text);

// chosen: what --chat-template says, a name or a file; empty: the model's own. Throws
// Error(Exit::Model) where there is none, and says which names there are.
ChatTemplate open_chat_template(const std::filesystem::path& model, const std::string& chosen);

}  // namespace skald
