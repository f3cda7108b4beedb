// Finds and runs the command of an argument list. Turns an Error into one line and an exit code.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "app/files/path_word.h"
#include "app/files/signals.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/program/help.h"
#include "app/program/other_names.h"
#include "app/program/version.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr const char* kOutOfMemory = "the machine is out of memory; try a smaller context (-c)";

// Prints one line. printable() escapes control characters, which may come from a file or a path.
int report(Exit code, std::string_view message) {
  constexpr size_t kMostBytes = 4000;
  std::fprintf(stderr, "skald: error: %s\n", printable(message, kMostBytes).c_str());
  return static_cast<int>(code);
}

std::vector<std::string_view> command_names() {
  std::vector<std::string_view> names;
  for (const NamedCommand& command : kCommands) names.push_back(command.name);
  return names;
}

std::vector<std::string> long_flags(const Command& command) {
  std::vector<std::string> flags;
  for (const Option& option : command.options()) {
    for (const std::string& name : option.names()) {
      if (name.starts_with("--")) flags.push_back(name);
    }
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

// The first command that has the flag; null if none has it.
const Command* command_with(const std::string& flag, const Command& program) {
  for (const Command* command : program.commands()) {
    if (command->find_flag(flag)) return command;
  }
  return nullptr;
}

[[noreturn]] void fail_unexpected(const std::string& argument, const Command& command) {
  const std::string typed = argument.substr(0, argument.find('='));
  const bool flag = typed.starts_with("-");
  if (flag) {
    const std::string_view advice = advice_for(typed, other_flags());
    if (!advice.empty()) fail(Exit::Usage, "unknown flag '", printable(typed), "': ", advice);
    if (const Command* owner = command_with(typed, command)) {
      fail(Exit::Usage, "the flag '", printable(typed), "' stands after a command, as in 'skald ",
           owner->name(), " ", printable(typed), " …'; see 'skald --help'");
    }
  }
  const std::string meant = flag ? meant_flag(typed, long_flags(command)) : "";
  fail(Exit::Usage, flag ? "unknown flag '" : "unexpected argument '", printable(typed), "'",
       meant.empty() ? "" : concat(", did you mean '", meant, "'?"),
       flag ? "; see 'skald " : "; put quotes around a text with spaces, and see 'skald ",
       command.commands().empty() ? command.name() + " " : "", "--help'");
}

// Refuses a value for a flag that takes none, as in --json=x.
void check_takes_value(const std::string& argument, const Command& command) {
  const size_t equals = argument.find('=');
  if (!argument.starts_with("--") || equals == argument.npos) return;
  const std::string name = argument.substr(0, equals);
  const std::string value = argument.substr(equals + 1);
  const Option flag = command.find_flag(name);
  if (!flag || flag.takes_value() || value == "true" || value == "false") return;
  fail(Exit::Usage, name, " takes no value, found '", printable(value, 60), "'; write ", name,
       " alone");
}

// Replaces flags of kOneDashNames by their long names and rejects all others such as -ngl, which
// CLI11 would read as -n with the value "gl". A number may follow its flag directly (-n5), a word
// may not. The value of a flag is not touched.
void replace_one_dash_names(std::vector<std::string>& arguments, const Command& command) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  bool value = false;
  for (std::string& a : arguments) {
    if (a == "--" && !value) return;
    for (const auto& [typed, meant] : kOneDashNames) {
      if (!value && a == typed && command.find_flag(std::string(meant))) a = meant;
    }
    const bool name = a.size() > 2 && a[0] == '-' && letter(a[1]) && letter(a[2]);
    if (name && !value) fail_unexpected(a, command);
    if (!value) check_takes_value(a, command);
    const Option flag = value ? Option() : command.find_flag(a);
    value = flag && flag.takes_value();
  }
}

[[noreturn]] void fail_unknown_command(const std::string& typed) {
  const std::string shown = printable(typed);
  const std::string_view advice = advice_for(typed, other_commands());
  if (!advice.empty()) fail(Exit::Usage, "unknown command '", shown, "': ", advice);
  std::error_code error;
  if (looks_like_path(typed) || std::filesystem::exists(typed, error)) {
    fail(Exit::Usage, "no command given; 'skald chat ", shown, "' talks with a model, 'skald run ",
         shown, " \"a text\"' continues a text");
  }
  if (typed.find(' ') != std::string::npos) {
    fail(Exit::Usage, "no command given; 'skald run \"", shown, "\"' continues this text");
  }
  const std::string_view meant = nearest(typed, command_names());
  fail(Exit::Usage, "unknown command '", shown, "'",
       meant.empty() ? "; see 'skald --help'" : concat(", did you mean '", meant, "'?"));
}

int parse_and_run(std::vector<std::string> arguments) {
  Command program("skald", "Runs LLaMA-style language models on this machine.");
  program.version("Show version, commit and GPUs, and exit");
  program.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 model cannot be read, 4 out of memory,\n"
      "5 some lines failed, 130 interrupted, 141 the reader of stdout closed it.");
  for (const NamedCommand& command : kCommands) command.add(program);

  if (arguments.empty()) {
    if (StandardOutput().is_terminal()) {
      StandardOutput().write(first_steps());
      return 0;
    }
    arguments.push_back("--help");
  }
  if (arguments.front() == "help") {  // skald help [COMMAND]
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  const std::string& first = arguments.front();
  const std::vector<std::string_view> names = command_names();
  if (!first.starts_with("-") && std::find(names.begin(), names.end(), first) == names.end()) {
    fail_unknown_command(first);
  }

  const Command* found = program.find_command(first);
  replace_one_dash_names(arguments, found ? *found : program);

  const Command::Request request = program.parse(arguments);
  const Command& command = *request.command;
  switch (request.kind) {
    case Command::Request::Kind::Help:
      StandardOutput().write(help_text(command));
      return 0;
    case Command::Request::Kind::Version:
      StandardOutput().write(concat("skald ", version(), " (", build_kind(), ")\n"));
      return 0;
    case Command::Request::Kind::Unexpected:
      fail_unexpected(request.unexpected, command);
    case Command::Request::Kind::Action:
      break;
  }
  if (!command.action()) fail(Exit::Usage, "no command given; see 'skald --help'");
  return command.action()();
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
    return report(Exit::Failed, concat(error.path1().string(), ": ", error.code().message()));
  } catch (const std::bad_alloc&) {
    return report(Exit::Memory, kOutOfMemory);
  } catch (const std::length_error&) {  // what a container throws in place of bad_alloc
    return report(Exit::Memory, kOutOfMemory);
  } catch (const std::system_error& error) {  // for instance, no more threads
    return report(Exit::Failed, concat("the system refuses: ", error.code().message()));
  } catch (const std::exception&) {
    return report(Exit::Failed,
                  "something failed that skald did not expect; please report the command and its "
                  "input");
  }
}

}  // namespace skald
