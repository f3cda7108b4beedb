#include "app/chat/commands.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "app/chat/program.h"
#include "app/chat/transcript.h"
#include "app/files/atomic_file.h"
#include "app/files/input.h"
#include "app/terminal/terminal.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) + 1 - first));
}

// A path as a person types it: perhaps in quotes, perhaps with ~ for the home folder.
std::string path_of(const std::string& argument) {
  std::string path = argument;
  const bool quoted =
      path.size() > 1 && (path[0] == '"' || path[0] == '\'') && path.back() == path[0];
  if (quoted) path = path.substr(1, path.size() - 2);
  const char* home = std::getenv("HOME");
  if (home && (path == "~" || path.starts_with("~/"))) path.replace(0, 1, home);
  return path;
}

int64_t token_count(const ChatProgram& program, std::string_view text) {
  return std::ssize(program.tokenizer().encode(text, {.add_bos = false, .add_eos = false}));
}

void help(ChatProgram& program, const std::string&) {
  program.screen().say(chat_help(terminal_columns()));
}

void exit(ChatProgram& program, const std::string&) { program.exit(); }

void clear(ChatProgram& program, const std::string&) {
  program.dialogue().clear();
  program.save();
  program.screen().say(program.dialogue().system().empty() ? "cleared"
                                                           : "cleared; the system prompt stays");
}

void undo(ChatProgram& program, const std::string&) {
  if (!program.dialogue().undo()) fail(Exit::Failed, "there is nothing to undo");
  program.save();
  const int left = program.dialogue().turns();
  program.screen().say(
      concat("the last message and its answer are gone; ", counted(left, "turn"), " left"));
}

void retry(ChatProgram& program, const std::string&) { program.retry(); }

void system(ChatProgram& program, const std::string& argument) {
  Dialogue& dialogue = program.dialogue();
  if (argument.empty()) {
    const std::string_view text = dialogue.system();
    program.screen().say(text.empty() ? "no system prompt" : text);
    return;
  }
  dialogue.set_system(argument == "none" ? "" : argument);
  program.save();
  program.screen().say(dialogue.system().empty() ? "no system prompt from now on"
                                                 : "system prompt set; /system none removes it");
}

void set(ChatProgram& program, const std::string& argument) {
  const size_t space = std::min(argument.find_first_of(kSpace), argument.size());
  const std::string typed = argument.substr(0, space), value = trimmed(argument.substr(space));
  const std::string name = typed.empty() ? "" : setting_name(typed);
  if (!value.empty()) {
    change_setting(program.settings, name, value, program.executor().program().vocab());
  }
  std::string text;
  for (const ChatSetting& one : list_settings(program.settings)) {
    if (!name.empty() && one.name != name) continue;
    std::string line = concat("  ", one.name, " ", one.value);
    if (line.size() < 26) line.resize(26, ' ');
    text += concat(line, "  ", one.description, "\n");
  }
  program.screen().say(text);
}

void save(ChatProgram& program, const std::string& argument) {
  const std::filesystem::path path = path_of(argument);
  std::error_code error;
  const bool foreign = std::filesystem::exists(path, error) && path != program.saved_to;
  if (foreign && program.screen().interactive()) {
    program.screen().say(concat(printable(path.string()), " exists"));
    if (!program.ask("Replace it?", false)) {
      program.screen().say("nothing is saved");
      return;
    }
  }
  const std::string text = transcript(program.dialogue().messages());
  AtomicFile file(path);
  file.write(text);
  file.commit();
  program.saved_to = path;
  const size_t count = program.dialogue().messages().size();
  program.screen().say(concat(counted(count, "message"), count == 1 ? " is in " : " are in ",
                              printable(path.string())));
}

void load(ChatProgram& program, const std::string& argument) {
  const std::string path = path_of(argument);
  std::vector<Message> messages = read_transcript(read_text(path), printable(path));
  program.dialogue().replace(std::move(messages));
  program.save();
  program.screen().say(
      concat(counted(program.dialogue().messages().size(), "message"), " from ", printable(path),
             program.dialogue().awaits_answer() ? "; the last one has no answer: /retry" : ""));
}

void file(ChatProgram& program, const std::string& argument) {
  const std::string path = path_of(argument);
  std::string text = read_text(path);
  const bool broken = !utf8_valid(text);
  if (broken) text = utf8_repaired(text);
  program.screen().say(concat(printable(path), ": ", counted(token_count(program, text), "token"),
                              " to go before your next message",
                              broken ? "; bytes that are no UTF-8 were replaced by U+FFFD" : ""));
  program.attach(text);
}

void stats(ChatProgram& program, const std::string&) {
  const Executor& executor = program.executor();
  program.screen().say(concat("last answer  ", program.stats(), "\ndevice       ",
                              executor.description(), "\nmemory       weights ",
                              size_text(executor.program().weight_bytes()),
                              ", cache and workspace ", size_text(executor.bytes_allocated())));
}

void tokens(ChatProgram& program, const std::string&) {
  Dialogue& dialogue = program.dialogue();
  const int64_t used = dialogue.tokens(), context = program.executor().context();
  std::string text =
      concat("context   ", used, " of ", context, " tokens (", 100 * used / context,
             " %)\nin cache  ", dialogue.session().computed(), "\nsystem    ",
             token_count(program, dialogue.system()), "\nturns     ", dialogue.turns());
  if (!program.attached().empty()) {
    text += concat("\nfile      ", token_count(program, program.attached()),
                   ", before your next message");
  }
  program.screen().say(text);
}

void thinking(ChatProgram& program, const std::string&) {
  const std::string& text = program.screen().thinking();
  program.screen().say_dimmed(text.empty() ? "there was no thinking in the last answer" : text);
}

constexpr ChatCommand kChatCommands[] = {
    {"help", "", "Show this", help},
    {"exit", "", "End, as Ctrl-D, /quit and /bye do", exit},
    {"clear", "", "Begin again; the system prompt stays", clear},
    {"undo", "", "Forget the last message and its answer", undo},
    {"retry", "", "Answer the last message once more", retry},
    {"system", "[TEXT|none]", "Show, set or remove the system prompt", system},
    {"set", "[NAME [VALUE]]", "Show or change sampling values", set},
    {"save", "FILE", "Write the messages to a file, as JSON", save},
    {"load", "FILE", "Go on from messages in a file", load},
    {"file", "PATH", "Put a text file before the next message", file},
    {"stats", "", "How fast the last answer was", stats},
    {"tokens", "", "How full the context is", tokens},
    {"thinking", "", "Show the thinking before the last answer", thinking},
};

// What users of other programs type.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"quit", "exit"}, {"bye", "exit"}, {"q", "exit"}, {"?", "help"}};

// Words of `text` in lines up to `columns`, each indented.
std::string indented(std::string_view text, size_t indent, size_t columns) {
  std::istringstream words{std::string(text)};
  std::string out, line(indent, ' '), word;
  bool first = true;
  while (words >> word) {
    if (!first && line.size() + 1 + word.size() > columns) {
      out += line + "\n";
      line.assign(indent, ' ');
      first = true;
    }
    line += (first ? "" : " ") + word;
    first = false;
  }
  return out + line + "\n";
}

}  // namespace

std::span<const ChatCommand> chat_commands() { return kChatCommands; }

std::string chat_help(int columns) {
  constexpr size_t kNames = 24;
  const auto width = static_cast<size_t>(std::max(columns - 1, 1));
  std::string text;
  const bool narrow = width < 60;  // no room for two columns
  for (const ChatCommand& command : kChatCommands) {
    std::string names = concat(narrow ? "/" : "  /", command.name,
                               command.argument.empty() ? "" : " ", command.argument);
    if (narrow) {
      text += names + "\n" + indented(command.help, 2, width);
      continue;
    }
    names.resize(kNames, ' ');
    text += names + indented(command.help, kNames, width).substr(kNames);
  }
  return text + indented(
                    "A line that ends in \\ goes on in the next one; pasted text may have several "
                    "lines. Ctrl-C stops an answer and clears a line, Ctrl-D ends. A message that "
                    "begins with a slash gets a space before it.",
                    narrow ? 0 : 2, std::min<size_t>(width, 80));
}

void run_chat_command(ChatProgram& program, const std::string& line) {
  const size_t space = std::min(line.find_first_of(kSpace), line.size());
  std::string name = line.substr(1, space - 1);
  const std::string argument = trimmed(line.substr(space));
  for (const auto& [other, own] : kOtherNames) {
    if (name == other) name = own;
  }
  const auto found = std::find_if(std::begin(kChatCommands), std::end(kChatCommands),
                                  [&](const ChatCommand& command) { return command.name == name; });
  if (found == std::end(kChatCommands)) {
    std::vector<std::string_view> names;
    for (const ChatCommand& command : kChatCommands) names.push_back(command.name);
    const std::string_view meant = nearest(name, names);
    fail(Exit::Usage, "unknown command '/", printable(name, 40), "'",
         meant.empty() ? "" : concat(", did you mean '/", meant, "'?"),
         "; /help lists them, and a space before it makes it a message");
  }
  if (argument.empty() && !found->argument.empty() && !found->argument.starts_with('[')) {
    fail(Exit::Usage, "/", name, " needs ", found->argument);
  }
  if (!argument.empty() && found->argument.empty()) {
    fail(Exit::Usage, "/", name, " takes nothing after it; a space before it makes it a message");
  }
  found->run(program, argument);
}

}  // namespace skald
