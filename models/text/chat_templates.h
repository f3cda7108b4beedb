// Finds the chat templates in a model's files, and the texts of special tokens that templates
// print.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "tokenizer/chat/chat_template.h"

namespace skald {

// Empty if the model has none.
std::vector<NamedTemplate> find_chat_templates(const std::filesystem::path& model);

SpecialTexts special_texts(const std::filesystem::path& model);

// The prompt format of a template, recognized by its text: "chatml", "llama3".
std::string_view template_kind(std::string_view text);

}  // namespace skald
