// The flags that say how messages become a prompt, for commands that use a model's chat template.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tokenizer/chat/chat_template.h"

namespace skald {

struct ChatFlags {
  std::string system;     // a message before the others; empty: none
  std::string chosen;     // in place of the model's own template: a file or a name
  std::string variables;  // JSON

  bool any() const { return !system.empty() || !chosen.empty() || !variables.empty(); }
};

void add_system_flag(CLI::App& command, ChatFlags& flags);     // -sys
void add_template_flags(CLI::App& command, ChatFlags& flags);  // --chat-template, …-kwargs

jinja::Dict template_variables(const ChatFlags& flags);  // throws Error(Exit::Usage)

}  // namespace skald
