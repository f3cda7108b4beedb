// Reads the prompt of `skald run`. Sources: an argument, -p or -f, and stdin if it is not a
// terminal. Stdin alone is the prompt; with another source, stdin is appended after an empty line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "app/program/command.h"

namespace skald {

struct PromptFlags {
  std::string text, file;
  bool escapes = false;
  Option option;  // -p; tells an empty -p from a missing one

  bool given() const { return option.given() || !file.empty(); }
};

void add_prompt_flags(Command& command, PromptFlags& flags);  // -p, -f, -e

// `word` is the command's argument. Throws Error(Exit::Usage) if no source or more than one source
// is given.
std::string read_prompt(const PromptFlags& flags, const std::optional<std::string>& word);

// Returns valid UTF-8 unchanged. Replaces each invalid byte by U+FFFD and reports that on stderr.
// `name` names the text in the message: "the prompt".
std::string as_utf8(std::string text, std::string_view name);

}  // namespace skald
