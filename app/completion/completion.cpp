// skald completion and skald man: print shell completion scripts and manual pages, or install them.
#include <filesystem>

#include "app/completion/command_line.h"
#include "app/completion/completion_scripts.h"
#include "app/completion/man_page.h"
#include "app/files/atomic_file.h"
#include "app/model/find_model.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& file, const std::string& text) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  AtomicFile out(file, {.mode = 0666});
  out.write(text);
  out.commit();
}

struct Shell {
  std::string_view name;
  std::string (*script)(const std::vector<CommandData>&);
  const char* file;  // below share/, where the shell finds it
};
constexpr Shell kShells[] = {{"bash", bash_completion, "bash-completion/completions/skald"},
                             {"zsh", zsh_completion, "zsh/site-functions/_skald"},
                             {"fish", fish_completion, "fish/vendor_completions.d/skald.fish"}};

int complete(const Command& program, const std::string& shell, const std::string& folder) {
  if (shell.empty() == folder.empty()) {
    fail(Exit::Usage,
         "expected either a shell (bash, zsh, fish) or -o DIR; see 'skald completion --help'");
  }
  if (shell == "models") {
    std::string text;
    for (const std::string& name : model_names(model_places())) text += printable(name) + "\n";
    StandardOutput().write(text);
    return 0;
  }
  const std::vector<CommandData> commands = describe_program(program);
  for (const Shell& one : kShells) {
    if (!folder.empty()) write_file(fs::path(folder) / one.file, one.script(commands));
    if (one.name != shell) continue;
    StandardOutput().write(one.script(commands));
    return 0;
  }
  if (folder.empty()) {
    fail(Exit::Usage, "'", printable(shell), "': expected bash, zsh, fish or models");
  }
  return 0;
}

int print_manual(const Command& program, const std::string& name, const std::string& folder) {
  if (!name.empty() && !folder.empty()) {
    fail(Exit::Usage, "-o writes the pages of all commands; leave out '", printable(name), "'");
  }
  const std::vector<CommandData> commands = describe_program(program);
  for (const CommandData& command : commands) {
    const std::string page = man_page(command, commands);
    if (!folder.empty()) {
      write_file(fs::path(folder) / "man1" / (man_page_name(command) + ".1"), page);
    } else if (command.name == name) {
      StandardOutput().write(page);
      return 0;
    }
  }
  if (folder.empty())
    fail(Exit::Usage, "unknown command '", printable(name), "'; see 'skald --help'");
  return 0;
}

struct WordAndFolder {
  std::string word, folder;
};

std::shared_ptr<WordAndFolder> add_flags(Command& command, const char* word,
                                         std::vector<std::string> words, const char* folder) {
  auto flags = std::make_shared<WordAndFolder>();
  command.suggest(command.word("word", word, flags->word), std::move(words));
  command.option("-o,--output", flags->folder, folder)
      .type_name("DIR")
      .check(not_empty())
      .group("Output");
  return flags;
}

}  // namespace

void add_completion(Command& program) {
  Command& command = program.add_command(
      "completion",
      "Prints a script that completes commands, flags and model names. SHELL is bash, "
      "zsh or fish.\n"
      "With \"models\" as SHELL, prints the model names that -m accepts.",
      {"skald completion bash > ~/.local/share/bash-completion/completions/skald",
       "source <(skald completion zsh)",
       "skald completion fish > ~/.config/fish/completions/skald.fish"});
  const auto flags = add_flags(command, "[SHELL]", {"bash", "zsh", "fish", "models"},
                               "Write the scripts of all shells below DIR");
  command.action([=, &program] { return complete(program, flags->word, flags->folder); });
}

void add_man(Command& program) {
  Command& command = program.add_command(
      "man", "Prints the manual page of a command or of skald itself, in troff.",
      {"skald man run | man -l -", "skald man -o ~/.local/share/man"});
  std::vector<std::string> names;
  for (const NamedCommand& one : kCommands) names.emplace_back(one.name);
  const auto flags = add_flags(command, "[COMMAND]", std::move(names), "Write all pages below DIR");
  command.action([=, &program] { return print_manual(program, flags->word, flags->folder); });
}

}  // namespace skald
