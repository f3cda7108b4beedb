#include "app/completion/man_page.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <sstream>
#include <string_view>
#include <utility>

#include "app/program/version.h"
#include "engine/base/error.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

// Escapes a text for troff. Uses characters that can be copied from the page: - stays a minus sign,
// ' stays an apostrophe.
std::string escaped(std::string_view text) {
  constexpr std::pair<char, std::string_view> kSpecial[] = {
      {'\\', "\\e"}, {'-', "\\-"}, {'\'', "\\(aq"}, {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
  std::string out;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, std::max<size_t>(utf8_length(text), 1));
    text.remove_prefix(character.size());
    std::string_view as = character;
    for (const auto& [special, name] : kSpecial) {
      if (character[0] == special) as = name;
    }
    if (character.size() == 1) {
      out += as;
    } else {
      char code[24];
      std::snprintf(code, sizeof code, "\\[u%04X]",
                    static_cast<unsigned>(utf8_code_point(character)));
      out += code;
    }
  }
  return out;
}

// One line of text. \& protects a dot at its start, which would begin a troff request.
std::string line(std::string_view text) {
  return (text.starts_with('.') ? "\\&" : "") + escaped(text) + "\n";
}

std::string lines(const std::string& text) {
  std::string out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one);) out += line(one);
  return out;
}

std::string flags_section(const CommandData& command) {
  std::string text = ".SH OPTIONS\n", group;
  for (const FlagData& flag : command.flags) {
    if (flag.group != group) text += ".SS " + escaped(group = flag.group) + "\n";
    text += ".TP\n";
    std::string names;
    for (const std::string& name : flag.names) {
      names += (names.empty() ? "" : ", ") + ("\\fB" + escaped(name) + "\\fR");
    }
    if (!flag.value.empty()) names += " \\fI" + escaped(flag.value) + "\\fR";
    text += names + "\n" + line(flag.description);
    if (!flag.preset.empty()) text += line("[" + flag.preset + "]");
  }
  return text;
}

constexpr std::string_view kEnvironment = R"(.SH ENVIRONMENT
.TP
.B SKALD_MODELS
Folders, separated by colons, that are searched for models by name.
.TP
.BR HF_HUB_CACHE ", " HF_HOME ", " XDG_CACHE_HOME
Folders of Hugging Face\(aqs cache and of skald\(aqs cache, which are searched as well.
.TP
.BR HF_TOKEN ", " HF_TOKEN_PATH ", " HF_ENDPOINT ", " HF_HUB_OFFLINE
A token for Hugging Face\(aqs hub, its file, the address of a mirror, and 1 for no connection at all.
.TP
.B NO_COLOR
If it is set, skald prints no colours on a terminal.
)";

std::string see_also(const CommandData& command, const std::vector<CommandData>& commands) {
  std::string text;
  for (const CommandData& other : commands) {
    if (other.name == command.name) continue;
    text += concat(text.empty() ? ".SH SEE ALSO\n" : ",\n", ".BR ", escaped(man_page_name(other)),
                   " (1)");
  }
  return text + "\n";
}

}  // namespace

std::string man_page_name(const CommandData& command) {
  return command.name.empty() ? "skald" : "skald-" + command.name;
}

std::string man_page(const CommandData& command, const std::vector<CommandData>& commands) {
  const bool whole = command.name.empty();
  const std::string name = escaped(man_page_name(command));
  std::string title = name, summary = command.summary();
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  summary[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(summary[0])));

  std::string text = concat(".TH ", title, " 1 \"\" \"skald ", version(), "\" \"skald\"\n");
  text += concat(".SH NAME\n", name, " \\- ", escaped(summary), "\n.SH SYNOPSIS\n.B skald");
  text += concat(whole ? " \\fICOMMAND\\fR" : " " + escaped(command.name) + "\\fR ",
                 escaped(command.arguments), " [\\fIoptions\\fR]\n.SH DESCRIPTION\n");
  text += lines(command.description);
  if (whole) {
    text += ".SH COMMANDS\n";
    for (const CommandData& other : commands) {
      if (other.name.empty()) continue;
      text += concat(".TP\n.B ", escaped(other.name), "\n", line(other.summary()));
    }
  }
  text += flags_section(command);
  if (!command.examples.empty()) {
    text += ".SH EXAMPLES\n.nf\n";
    for (const std::string& example : command.examples) text += line(example);
    text += ".fi\n";
  }
  text += ".SH EXIT STATUS\n" + lines(commands.front().footer) + std::string(kEnvironment);
  return text + see_also(command, commands);
}

}  // namespace skald
