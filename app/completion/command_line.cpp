#include "app/completion/command_line.h"

#include <algorithm>
#include <sstream>

#include "app/program/help.h"

namespace skald {
namespace {

FlagData describe_flag(const CLI::Option& option) {
  FlagData flag;
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  for (const auto& [typed, meant] : kOneDashNames) {
    if (std::find(flag.names.begin(), flag.names.end(), meant) != flag.names.end()) {
      flag.names.insert(flag.names.begin(), std::string(typed));
    }
  }
  if (option.get_items_expected_max() > 0) flag.value = option.get_type_name();
  flag.description = option.get_description();
  flag.group = option.get_group();
  flag.preset = option.get_default_str();
  flag.repeatable = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  return flag;
}

std::vector<FlagData> describe_flags(const CLI::App& app) {
  std::vector<FlagData> flags;
  for (const std::string& group : help_groups(app)) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() == group && !option->get_positional()) {
        flags.push_back(describe_flag(*option));
      }
    }
  }
  return flags;
}

// Reads the examples from the footer that add_command() makes: "Examples:", then a line for each.
std::vector<std::string> examples_of(const std::string& footer) {
  std::vector<std::string> examples;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) examples.push_back(line.substr(2));
  }
  return examples;
}

}  // namespace

std::string CommandData::summary() const {
  return description.substr(0, description.find_first_of(".:\n"));
}

std::vector<CommandData> describe_program(const CLI::App& program) {
  std::vector<CommandData> all;
  CommandData& whole = all.emplace_back();
  whole.description = program.get_description();
  whole.flags = describe_flags(program);
  whole.footer = program.get_footer();
  for (const CLI::App* app : program.get_subcommands([](const CLI::App*) { return true; })) {
    CommandData& command = all.emplace_back();
    command.name = app->get_name();
    command.description = app->get_description();
    for (const CLI::Option* option : app->get_options()) {
      if (!option->get_positional()) continue;
      command.arguments += (command.arguments.empty() ? "" : " ") + option->get_option_text();
    }
    command.examples = examples_of(app->get_footer());
    command.flags = describe_flags(*app);
  }
  return all;
}

}  // namespace skald
