#include "app/program/help.h"

#include <algorithm>
#include <sstream>

namespace skald {
namespace {

constexpr size_t kDescriptionColumn = 30;
constexpr size_t kWidth = 100;  // longest line

// Wraps a text at kWidth; lines after the first begin at kDescriptionColumn.
std::string wrapped(const std::string& text) {
  std::istringstream words(text);
  std::string out, word;
  size_t column = kDescriptionColumn;
  while (words >> word) {
    const bool fits = column + 1 + word.size() <= kWidth;
    if (!out.empty()) out += fits ? " " : "\n" + std::string(kDescriptionColumn, ' ');
    column = (fits ? column + !out.empty() : kDescriptionColumn) + word.size();
    out += word;
  }
  return out;
}

std::string usage(const Command& command) {
  if (!command.commands().empty()) return "usage: " + command.name() + " COMMAND [options]\n";
  std::string text = "usage: skald " + command.name();
  for (const Option& option : command.options()) {
    if (option.is_word()) text += " " + option.text();
  }
  return text + " [options]\n";
}

std::string row(const std::string& left, const std::string& right) {
  std::string text = "  " + left;
  text += text.size() + 2 > kDescriptionColumn ? "\n" + std::string(kDescriptionColumn, ' ')
                                               : std::string(kDescriptionColumn - text.size(), ' ');
  return text + wrapped(right) + "\n";
}

std::string flag_row(const Option& flag) {
  std::string names;
  for (const std::string& name : flag.names()) names += (names.empty() ? "" : ",") + name;
  for (const auto& [typed, meant] : kOneDashNames) {
    if (names == meant) names = std::string(typed) + "," + names;
  }
  if (!flag.type_name().empty()) names += " " + flag.type_name();
  std::string description = flag.help();
  if (!flag.default_text().empty()) description += " [" + flag.default_text() + "]";
  return row(names, description);
}

std::string first_sentence(const std::string& text) {
  return text.substr(0, text.find_first_of(".:\n"));
}

// The examples, or the text that the program has in their place.
std::string footer(const Command& command) {
  if (command.examples().empty()) return command.footer();
  std::string text = "Examples:";
  for (const std::string& example : command.examples()) text += "\n  " + example;
  return text;
}

}  // namespace

std::string help_text(const Command& command) {
  std::string text = usage(command) + "\n" + command.description() + "\n";
  const std::vector<const Command*> commands = command.commands();
  if (!commands.empty()) text += "\nCommands:\n";
  for (const Command* one : commands) text += row(one->name(), first_sentence(one->description()));
  for (const std::string& group : help_groups(command)) {
    text += "\n" + group + ":\n";
    for (const Option& flag : flags_of_group(command, group)) text += flag_row(flag);
  }
  return text + "\n" + footer(command) + "\n";
}

std::string first_steps() {
  return R"(skald runs language models on this
machine. Three things to type:

A story by the small bundled model:
  skald run "Once upon a time"
Get a model and talk with it (2 GB):
  skald chat -hf llama3.2
All commands:
  skald --help
)";
}

std::vector<std::string> help_groups(const Command& command) {
  std::vector<std::string> groups;
  for (const Option& option : command.options()) {
    if (option.is_word() || option.group().empty()) continue;  // no group: hidden
    if (std::find(groups.begin(), groups.end(), option.group()) != groups.end()) continue;
    groups.push_back(option.group());
  }
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != kOther; });
  return groups;
}

std::vector<Option> flags_of_group(const Command& command, const std::string& group) {
  std::vector<Option> flags = command.options();
  std::erase_if(flags,
                [&](const Option& option) { return option.is_word() || option.group() != group; });
  return flags;
}

}  // namespace skald
