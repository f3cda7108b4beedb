// The commands and flags as data. Man pages and shell completion are made from it.
#pragma once

#include <string>
#include <vector>

#include "app/program/command.h"

namespace skald {

struct FlagData {
  std::vector<std::string> names;  // "-m", "--model", and the flag's name in kOneDashNames
  std::string value;               // "PATH"; empty: the flag takes no value
  std::string description, group;
  std::string preset;  // the default that --help shows; may be empty
  bool repeatable = false;
  std::vector<std::string> values;  // that completion offers; others may be allowed
};

struct CommandData {
  std::string name;                // empty: the program itself
  std::string description;         // may have several lines
  std::string arguments;           // "[MODEL] [PROMPT]"
  std::vector<std::string> words;  // that completion offers as an argument
  std::vector<std::string> examples;
  std::vector<FlagData> flags;  // in the groups' order
  std::string footer;           // of the program only

  std::string summary() const;  // the description's first sentence, without its full stop
};

// Returns the program itself, then its commands.
std::vector<CommandData> describe_program(const Command& program);

}  // namespace skald
