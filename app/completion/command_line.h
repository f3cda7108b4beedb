// The command line as data: what --help prints, for man pages and shell completion.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace skald {

struct FlagData {
  std::vector<std::string> names;  // "-m", "--model"; also those of kOneDashNames
  std::string value;               // "PATH"; empty: it takes none
  std::string description, group;
  std::string preset;  // its default, where that is shown
  bool repeatable = false;
};

struct CommandData {
  std::string name;         // empty: the program itself
  std::string description;  // lines that belong together
  std::string arguments;    // "[MODEL] [PROMPT]"
  std::vector<std::string> examples;
  std::vector<FlagData> flags;  // in the groups' order
  std::string footer;           // of the program

  std::string summary() const;  // the description's first sentence, without its end
};

// The program itself first, then its commands.
std::vector<CommandData> describe_program(const CLI::App& program);

}  // namespace skald
