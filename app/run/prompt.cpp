#include "app/run/prompt.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "app/files/input.h"
#include "app/program/command.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

// True if stdin is a pipe or a file that can be read. (nohup opens stdin for writing only.)
bool stdin_has_text() {
  const int flags = fcntl(STDIN_FILENO, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && !stdin_is_terminal();
}

std::string with_context(const std::string& prompt, const std::string& context) {
  if (context.empty()) return prompt;
  return prompt.empty() ? context : prompt + "\n\n" + context;
}

}  // namespace

void add_prompt_flags(Command& command, PromptFlags& flags) {
  flags.option =
      command
          .option("-p,--prompt", flags.text, "Use this prompt; text from a pipe is appended to it")
          .type_name("TEXT")
          .group("Prompt");
  command.option("-f,--file", flags.file, "Read the prompt from FILE; -: from stdin")
      .type_name("FILE")
      .check(not_empty())
      .group("Prompt");
  command
      .flag("-e,--escape", flags.escapes,
            "Replace the escapes \\n, \\t, \\\\ and \\xHH in the prompt, --stop and -sys")
      .group("Prompt");
}

std::string read_prompt(const PromptFlags& flags, const std::optional<std::string>& word) {
  const bool by_option = flags.option.given();
  const int sources = static_cast<int>(word.has_value()) + by_option + !flags.file.empty();
  if (sources > 1) {
    fail(Exit::Usage, "the prompt is given more than once; use one of: the argument, -p, -f");
  }
  const auto unescaped = [&](const std::string& text) {
    return flags.escapes ? unescape(text) : text;
  };
  if (flags.file == "-" || (sources == 0 && stdin_has_text())) return unescaped(read_text("-"));
  if (sources == 0) {
    fail(Exit::Usage, "no prompt given; pass one as an argument, with -p or -f, or through a pipe");
  }
  const std::string prompt = unescaped(word        ? *word
                                       : by_option ? flags.text
                                                   : read_text(flags.file));
  return stdin_has_text() ? with_context(prompt, read_text("-")) : prompt;
}

std::string as_utf8(std::string text, std::string_view name) {
  size_t broken = 0, first = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t length = utf8_length(rest);
    if (length == 0 && broken++ == 0) first = text.size() - rest.size();
    rest.remove_prefix(length > 0 ? length : 1);
  }
  if (broken == 0) return text;
  std::fprintf(stderr,
               "skald: %.*s is not UTF-8: %zu %s replaced by U+FFFD, the first after %zu bytes\n",
               static_cast<int>(name.size()), name.data(), broken,
               broken == 1 ? "byte was" : "bytes were", first);
  return utf8_repaired(text);
}

}  // namespace skald
