// Where a prompt comes from: an argument, -p or -f, and stdin where it is no terminal. Stdin alone
// is the prompt; beside another source it is what the prompt is about, and goes after it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace skald {

struct PromptFlags {
  std::string text, file;
  bool escapes = false;
  CLI::Option* option = nullptr;  // -p, which may be given and empty

  bool given() const { return option->count() > 0 || !file.empty(); }
};

void add_prompt_flags(CLI::App& command, PromptFlags& flags);  // -p, -f, -e

// `words` are the command's arguments beside the model: none or one. What is given twice, or not
// at all, is Error(Exit::Usage).
std::string read_prompt(const PromptFlags& flags, const std::vector<std::string>& words);

// The text as it is where it is UTF-8; else each byte that is none becomes U+FFFD, which is said on
// stderr. `name` is for the message: "the prompt".
std::string as_utf8(std::string text, std::string_view name);

}  // namespace skald
