// From the argument list to a command, and from an Error to one line and an exit code.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>

#include "app/commands.h"
#include "app/help.h"
#include "app/output.h"
#include "app/signals.h"
#include "engine/error.h"
#include "engine/printable.h"

namespace skald {
namespace {

int report(Exit code, std::string_view message) {
  std::fprintf(stderr, "skald: error: %.*s\n", static_cast<int>(message.size()), message.data());
  return static_cast<int>(code);
}

std::vector<std::string_view> command_names() {
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  return names;
}

// CLI11 lists what it did not expect; say which flag was probably meant.
std::string unexpected_arguments(const CLI::App& program) {
  const auto commands = program.get_subcommands();
  const CLI::App& command = commands.empty() ? program : *commands.front();
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  const std::vector<std::string> extras = command.remaining();
  const std::string extra = extras.empty() ? "" : extras.front();
  const std::string typed = extra.substr(0, extra.find('='));
  const std::vector<std::string_view> views(flags.begin(), flags.end());
  const std::string_view meant = extra.starts_with("-") ? nearest(typed, views) : "";
  return concat("unexpected argument '", printable(extra), "'",
                meant.empty() ? "" : concat(", did you mean '", meant, "'?"), "; see 'skald ",
                commands.empty() ? "" : command.get_name() + " ", "--help'");
}

int parse_and_run(std::vector<std::string> arguments) {
  CLI::App program("Runs LLaMA-style language models on this machine.", "skald");
  set_help_style(program);
  program.set_version_flag("--version", "skald " SKALD_VERSION, "Show the version and exit")
      ->group(kOther);
  program.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 model cannot be read, 4 out of memory,\n"
      "5 some lines failed, 130 interrupted, 141 the reader of stdout went away.");
  Action chosen;
  for (const Command& command : kCommands) command.add(program, chosen);

  if (arguments.empty()) arguments.push_back("--help");
  const std::string& first = arguments.front();
  const std::vector<std::string_view> names = command_names();
  if (!first.starts_with("-") && std::find(names.begin(), names.end(), first) == names.end()) {
    const std::string_view meant = nearest(first, names);
    fail(Exit::Usage, "unknown command '", printable(first), "'",
         meant.empty() ? "; see 'skald --help'" : concat(", did you mean '", meant, "'?"));
  }

  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    program.parse(arguments);
  } catch (const CLI::ExtrasError&) {
    fail(Exit::Usage, unexpected_arguments(program));
  } catch (const CLI::Success& help_or_version) {
    std::ostringstream text;
    program.exit(help_or_version, text, text);
    StandardOutput().write(text.str());
    return 0;
  } catch (const CLI::ParseError& problem) {
    fail(Exit::Usage, problem.what());
  }
  if (!chosen) fail(Exit::Usage, "no command given; see 'skald --help'");
  return chosen();
}

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  install_signal_handlers();
  try {
    return parse_and_run(arguments);
  } catch (const Error& error) {
    if (error.code() == Exit::Closed) return static_cast<int>(Exit::Closed);
    return report(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return report(Exit::Memory, "the machine is out of memory; try a smaller context (-c)");
  } catch (const std::exception& error) {
    return report(Exit::Failed, error.what());
  }
}

}  // namespace skald
