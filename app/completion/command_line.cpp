#include "app/completion/command_line.h"

#include <algorithm>

#include "app/program/help.h"

namespace skald {
namespace {

FlagData describe_flag(const Option& option) {
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
  return flag;
}

std::vector<FlagData> describe_flags(const Command& command) {
  std::vector<FlagData> flags;
  for (const std::string& group : help_groups(command)) {
    for (const Option& flag : flags_of_group(command, group)) flags.push_back(describe_flag(flag));
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
    }
    command.examples = one->examples();
    command.flags = describe_flags(*one);
  }
  return all;
}

}  // namespace skald
