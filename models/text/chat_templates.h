// The chat templates in a model's own files, and the texts of its special tokens, which templates
// print.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "tokenizer/chat/chat_template.h"

namespace skald {

// Empty when the model has none.
std::vector<NamedTemplate> find_chat_templates(const std::filesystem::path& model);

SpecialTexts special_texts(const std::filesystem::path& model);

// The form of prompt that a template writes, by what its text contains: "chatml", "llama3".
std::string_view template_kind(std::string_view text);

}  // namespace skald
