#include "app/completion/command_line.h"

#include <algorithm>
#include <sstream>

#include "app/program/help.h"

namespace skald {
namespace {

// {"auto", "on"} for the type name "WHEN:{auto,on}"; none if the value is not one of a fixed set.
std::vector<std::string> choices(const std::string& type_name) {
  const size_t first = type_name.find('{'), last = type_name.find('}');
  std::vector<std::string> values;
  if (first == type_name.npos || last == type_name.npos) return values;
  std::istringstream words(type_name.substr(first + 1, last - first - 1));
  for (std::string word; std::getline(words, word, ',');) values.push_back(word);
  return values;
}

FlagData describe_flag(const Command& command, const Option& option) {
  FlagData flag;
  flag.names = option.names();
  for (const auto& [typed, meant] : kOneDashNames) {
    if (std::find(flag.names.begin(), flag.names.end(), meant) != flag.names.end()) {
      flag.names.insert(flag.names.begin(), std::string(typed));
    }
  }
  if (option.takes_value()) flag.value = option.type_name();
  flag.description = option.help();
  flag.group = option.group();
  flag.preset = option.default_text();
  flag.repeatable = option.is_repeatable();
  flag.values = command.suggestions(option);
  if (flag.values.empty()) flag.values = choices(flag.value);
  return flag;
}

std::vector<FlagData> describe_flags(const Command& command) {
  std::vector<FlagData> flags;
  for (const std::string& group : help_groups(command)) {
    for (const Option& flag : flags_of_group(command, group)) {
      flags.push_back(describe_flag(command, flag));
    }
  }
  return flags;
}

}  // namespace

std::string CommandData::summary() const {
  return description.substr(0, description.find_first_of(".:\n"));
}

std::vector<CommandData> describe_program(const Command& program) {
  std::vector<CommandData> all;
  CommandData& whole = all.emplace_back();
  whole.description = program.description();
  whole.flags = describe_flags(program);
  whole.footer = program.footer();
  for (const Command* one : program.commands()) {
    CommandData& command = all.emplace_back();
    command.name = one->name();
    command.description = one->description();
    for (const Option& option : one->options()) {
      if (!option.is_word()) continue;
      command.arguments += (command.arguments.empty() ? "" : " ") + option.text();
      const std::vector<std::string> words = one->suggestions(option);
      command.words.insert(command.words.end(), words.begin(), words.end());
    }
    command.examples = one->examples();
    command.flags = describe_flags(*one);
  }
  return all;
}

}  // namespace skald
