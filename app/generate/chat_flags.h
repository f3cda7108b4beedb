// The flags for commands that turn messages into a prompt with a chat template.
#pragma once

#include <string>

#include "tokenizer/chat/chat_template.h"

namespace skald {

class Command;
class Option;

struct ChatFlags {
  std::string system;     // a message before the others; empty: none
  std::string chosen;     // a template to use instead of the model's own: a file or a name
  std::string variables;  // JSON
  std::string effort;     // the variable reasoning_effort; empty: unset

  bool any() const {
    return !system.empty() || !chosen.empty() || !variables.empty() || !effort.empty();
  }
};

void add_system_flag(Command& command, ChatFlags& flags);     // -sys
void add_template_flags(Command& command, ChatFlags& flags);  // --chat-template, …-kwargs
void add_variable_flags(Command& command, ChatFlags& flags);  // --chat-template-kwargs
void add_effort_flag(Command& command, ChatFlags& flags);     // --reasoning-effort

// Completion offers the built-in templates for the option's value.
void suggest_templates(Command& command, Option option);

jinja::Dict template_variables(const ChatFlags& flags);  // throws Error(Exit::Usage)

}  // namespace skald
