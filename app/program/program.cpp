// Finds and runs the command of an argument list. Turns an Error into one line and an exit code.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <new>
#include <utility>

#include "app/files/signals.h"
#include "app/program/commands.h"
#include "app/program/help.h"
#include "app/program/version.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

// Prints one line. printable() escapes control characters, which may come from a file or a path.
int report(Exit code, std::string_view message) {
  constexpr size_t kMostBytes = 4000;
  std::fprintf(stderr, "skald: error: %s\n", printable(message, kMostBytes).c_str());
  return static_cast<int>(code);
}

std::vector<std::string_view> command_names() {
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  return names;
}

std::vector<std::string> long_flags(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// The flag that a misspelled flag probably stands for: the first flag that begins with `typed`,
// else the flag with the fewest changed letters.
std::string meant_flag(const std::string& typed, const std::vector<std::string>& flags) {
  constexpr size_t kShortestPrefix = 4;  // "--to"; shorter prefixes fit too many flags
  for (const std::string& flag : flags) {
    if (typed.size() >= kShortestPrefix && flag.starts_with(typed)) return flag;
  }
  const std::vector<std::string_view> views(flags.begin(), flags.end());
  return std::string(nearest(typed, views));
}

[[noreturn]] void fail_unexpected(const std::string& argument, const CLI::App* command) {
  const std::string typed = argument.substr(0, argument.find('='));
  const bool flag = typed.starts_with("-");
  const std::string meant = flag && command ? meant_flag(typed, long_flags(*command)) : "";
  fail(Exit::Usage, flag ? "unknown flag '" : "unexpected argument '", printable(typed), "'",
       meant.empty() ? "" : concat(", did you mean '", meant, "'?"),
       flag ? "; see 'skald " : "; put quotes around a text with spaces, and see 'skald ",
       command && command->get_parent() ? command->get_name() + " " : "", "--help'");
}

// Replaces flags of kOneDashNames by their long names and rejects all others such as -ngl, which
// CLI11 would read as -n with the value "gl". A number may follow its flag directly (-n5), a word
// may not. The value of a flag is not touched.
void replace_one_dash_names(std::vector<std::string>& arguments, const CLI::App* command) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  bool value = false;
  for (std::string& a : arguments) {
    if (a == "--" && !value) return;
    for (const auto& [typed, meant] : kOneDashNames) {
      if (!value && a == typed && command->get_option_no_throw(std::string(meant))) a = meant;
    }
    const bool name = a.size() > 2 && a[0] == '-' && letter(a[1]) && letter(a[2]);
    if (name && !value) fail_unexpected(a, command);
    const CLI::Option* option = value ? nullptr : command->get_option_no_throw(a);
    value = option != nullptr && option->get_items_expected_max() > 0;
  }
}

// Rewords the messages of CLI11 that users would not understand.
std::string parse_message(const CLI::ParseError& problem) {
  const std::string text = printable(problem.what(), 400);
  const std::string name = text.substr(0, text.find(':'));
  const auto says = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&problem) != nullptr) {
    if (says("At Most 1 ")) return name + " is given more than once";
    if (says(" missing")) return name + " needs a value";
  }
  return text;
}

int parse_and_run(std::vector<std::string> arguments) {
  CLI::App program("Runs LLaMA-style language models on this machine.", "skald");
  set_help_style(program);
  program
      .set_version_flag("--version", concat("skald ", version(), " (", build_kind(), ")"),
                        "Show version, commit and GPUs, and exit")
      ->group(kOther);
  program.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 model cannot be read, 4 out of memory,\n"
      "5 some lines failed, 130 interrupted, 141 the reader of stdout closed it.");
  // At most one command: CLI11 then reads the prompt "bench" of `skald run bench` as a word.
  program.require_subcommand(0, 1);
  Action chosen;
  for (const Command& command : kCommands) command.add(program, chosen);

  if (arguments.empty()) arguments.push_back("--help");
  if (arguments.front() == "help") {  // skald help [COMMAND]
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  const std::string& first = arguments.front();
  const std::vector<std::string_view> names = command_names();
  if (!first.starts_with("-") && std::find(names.begin(), names.end(), first) == names.end()) {
    const std::string_view meant = nearest(first, names);
    fail(Exit::Usage, "unknown command '", printable(first), "'",
         meant.empty() ? "; see 'skald --help'" : concat(", did you mean '", meant, "'?"));
  }

  const auto is_first = [&](const CLI::App* command) { return command->get_name() == first; };
  const auto found = std::as_const(program).get_subcommands(is_first);
  replace_one_dash_names(arguments, found.empty() ? &program : found.front());

  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes the last argument first
  try {
    program.parse(arguments);
  } catch (const CLI::ExtrasError&) {
    const auto commands = program.get_subcommands();
    const CLI::App* command = commands.empty() ? &program : commands.front();
    const std::vector<std::string> extras = command->remaining();
    fail_unexpected(extras.empty() ? "" : extras.front(), command);
  } catch (const CLI::Success& help_or_version) {
    std::ostringstream text;
    program.exit(help_or_version, text, text);
    StandardOutput().write(text.str());
    return 0;
  } catch (const CLI::ParseError& problem) {
    fail(Exit::Usage, parse_message(problem));
  }
  if (!chosen) fail(Exit::Usage, "no command given; see 'skald --help'");
  return chosen();
}

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  reserve_standard_streams();
  install_signal_handlers();
  try {
    return parse_and_run(arguments);
  } catch (const Error& error) {
    if (error.code() == Exit::Closed) return static_cast<int>(Exit::Closed);
    return report(error.code(), error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return report(Exit::Model, concat(error.path1().string(), ": ", error.code().message()));
  } catch (const std::bad_alloc&) {
    return report(Exit::Memory, "the machine is out of memory; try a smaller context (-c)");
  } catch (const std::exception& error) {
    return report(Exit::Failed, error.what());
  }
}

}  // namespace skald
