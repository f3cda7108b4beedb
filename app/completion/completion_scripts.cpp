#include "app/completion/completion_scripts.h"

#include <string_view>

namespace skald {
namespace {

enum class Kind { None, Model, File, Other };

Kind kind(const std::string& value) {
  if (value.empty()) return Kind::None;
  if (value == "PATH") return Kind::Model;
  for (const char* files : {"FILE", "DIR"}) {
    if (value.starts_with(files)) return Kind::File;
  }
  return Kind::Other;
}

std::string joined(const std::vector<std::string>& words, std::string_view between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

// `skald help COMMAND` is read before the commands are; its words are all of them.
CommandData help_topics(const std::vector<CommandData>& commands) {
  CommandData help;
  help.name = "help";
  help.description = "Shows the help of a command";
  for (const CommandData& command : commands) {
    if (!command.name.empty()) help.words.push_back(command.name);
  }
  return help;
}

std::vector<CommandData> with_help(std::vector<CommandData> commands) {
  commands.push_back(help_topics(commands));
  return commands;
}

bool takes_model(const CommandData& command) {
  return command.arguments.find("MODEL") != std::string::npos;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::string in_sh_quotes(const std::string& text) {
  return "'" + replaced(text, "'", "'\\''") + "'";
}

std::string in_fish_quotes(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

// Escapes a text for the brackets of zsh's _arguments and for its lists of words.
std::string zsh_text(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"}) {
    text = replaced(text, special, std::string("\\") + special);
  }
  return text;
}

// The names of the flags whose value is of a kind, as " -m --model ": scripts search it for
// " $prev ".
std::string names_where(const CommandData& command, bool (*is_kind)(Kind)) {
  std::string names;
  for (const FlagData& flag : command.flags) {
    if (!is_kind(kind(flag.value))) continue;
    for (const std::string& name : flag.names) names += " " + name;
  }
  return names.empty() ? "" : names + " ";
}

std::string zsh_action(const FlagData& flag) {
  const std::string words = zsh_text(joined(flag.values));
  if (kind(flag.value) == Kind::Model) return "_skald_models";
  if (kind(flag.value) == Kind::File) {
    return words.empty() ? "_files" : "{_skald_files_or " + words + "}";
  }
  return words.empty() ? " " : "(" + words + ")";
}

std::string zsh_flag(const FlagData& flag) {
  std::string text = zsh_text(flag.description), all;
  text = "[" + text + "]";
  if (!flag.value.empty()) {
    const std::string name = flag.value.substr(0, flag.value.find(":{"));
    text += ":" + zsh_text(name) + ":" + zsh_action(flag);
  }
  for (const std::string& name : flag.names) all += (all.empty() ? "" : " ") + name;
  const std::string prefix = flag.repeatable ? "*" : "(" + all + ")";
  std::string lines;
  for (const std::string& name : flag.names) {
    const bool joined = !flag.value.empty() && name.starts_with("--");
    lines += " \\\n      " + in_sh_quotes(prefix + name + (joined ? "=" : "") + text);
  }
  return lines;
}

std::string fish_flag(const FlagData& flag, const std::string& condition) {
  std::string line = "complete -c skald -n " + in_fish_quotes(condition);
  for (const std::string& name : flag.names) {
    const bool old = name.size() > 2 && name[1] != '-';
    line +=
        name.starts_with("--") ? " -l " + name.substr(2) : (old ? " -o " : " -s ") + name.substr(1);
  }
  switch (kind(flag.value)) {
    case Kind::None:
      break;
    case Kind::Model:
      line += " -r -F -a '(skald completion models 2>/dev/null)'";
      break;
    case Kind::File:
      line += " -r -F";
      break;
    case Kind::Other:
      line += " -x";
      break;
  }
  if (!flag.values.empty()) line += " -a " + in_fish_quotes(joined(flag.values));
  return line + " -d " + in_fish_quotes(flag.description) + "\n";
}

constexpr std::string_view kBashStart =
    R"sh(# bash completion of skald, made by "skald completion bash"
_skald_words() {
    local found
    mapfile -t found < <(compgen -W "$1" -- "$cur")
    COMPREPLY+=("${found[@]}")
}
_skald_files() {
    local found
    compopt -o filenames 2> /dev/null
    mapfile -t found < <(compgen -f -- "$cur")
    COMPREPLY+=("${found[@]}")
}
_skald_models() {
    local name  # not compgen -W, which would execute $( ) in a name
    while IFS= read -r name; do
        [[ $name == "$cur"* ]] && COMPREPLY+=("$name")
    done < <("${COMP_WORDS[0]}" completion models 2> /dev/null)
    _skald_files
}
_skald() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local flags= models= files= values= words= first=_skald_files
    COMPREPLY=()
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]] && ((COMP_CWORD > 2)); then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if ((COMP_CWORD == 1)); then
        _skald_words ')sh";

constexpr std::string_view kBashEnd = R"sh(    esac
    if [[ $models == *" $prev "* ]]; then
        _skald_models
    elif [[ $files == *" $prev "* ]]; then
        _skald_files
    elif [[ $values == *" $prev "* ]]; then
        return
    elif [[ $cur == -* ]]; then
        _skald_words "$flags"
    elif [[ -n $words ]]; then
        _skald_words "$words"
    else
        $first
    fi
}
complete -F _skald skald
)sh";

constexpr std::string_view kZshStart = R"sh(#compdef skald
# zsh completion of skald, made by "skald completion zsh"
_skald_models() {
  local -a names
  names=(${(f)"$(skald completion models 2> /dev/null)"})
  compadd -a names
  _files
}
_skald_files_or() {
  compadd -- "$@"
  _files
}
_skald() {
  local -a commands
  commands=()sh";

constexpr std::string_view kZshEnd = R"sh(  esac
}
if [[ $funcstack[1] == _skald ]]; then
  _skald "$@"
else
  compdef _skald skald
fi
)sh";

}  // namespace

std::string bash_completion(const std::vector<CommandData>& commands) {
  std::string text(kBashStart), cases;
  for (const CommandData& command : with_help(commands)) {
    const std::string flags = names_where(command, [](Kind) { return true; });
    if (command.name.empty()) {
      text += flags.substr(1);
      continue;
    }
    text += command.name + " ";
    cases += "    " + command.name + ")\n        flags='" + flags + "'\n";
    const auto list = [&](const char* name, bool (*is_kind)(Kind)) {
      const std::string names = names_where(command, is_kind);
      if (!names.empty()) cases += std::string("        ") + name + "='" + names + "'\n";
    };
    list("models", [](Kind k) { return k == Kind::Model; });
    list("files", [](Kind k) { return k == Kind::File; });
    list("values", [](Kind k) { return k == Kind::Other; });
    if (takes_model(command)) cases += "        first=_skald_models\n";
    if (!command.words.empty()) cases += "        words='" + joined(command.words) + "'\n";
    std::string by_flag;
    for (const FlagData& flag : command.flags) {
      if (flag.values.empty()) continue;
      const bool file = kind(flag.value) == Kind::File;
      by_flag += "        " + joined(flag.names, " | ") + ") _skald_words '" + joined(flag.values) +
                 "'; " + (file ? "_skald_files; " : "") + "return ;;\n";
    }
    if (!by_flag.empty()) cases += "        case $prev in\n" + by_flag + "        esac\n";
    cases += "        ;;\n";
  }
  text += "'\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n";
  return text + cases + std::string(kBashEnd);
}

std::string zsh_completion(const std::vector<CommandData>& commands) {
  std::string text(kZshStart), cases, own;
  for (const CommandData& command : with_help(commands)) {
    std::string flags;
    for (const FlagData& flag : command.flags) flags += zsh_flag(flag);
    if (command.name.empty()) {
      own = flags;
      continue;
    }
    text += "\n    " + in_sh_quotes(command.name + ":" + zsh_text(command.summary()));
    const std::string word = !command.words.empty() ? "(" + joined(command.words) + ")"
                             : takes_model(command) ? "_skald_models"
                                                    : "_files";
    cases += "  " + command.name + ")\n    _arguments :" + flags + " \\\n      '*: :" + word +
             "'\n    ;;\n";
  }
  text +=
      "\n  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    _arguments :" + own;
  text += "\n    return\n  fi\n  local command=$words[2]\n  shift words\n  ((CURRENT--))\n";
  return text + "  case $command in\n" + cases + std::string(kZshEnd);
}

std::string fish_completion(const std::vector<CommandData>& commands) {
  std::string text = "# fish completion of skald, made by \"skald completion fish\"\n";
  text += "complete -c skald -f\n";
  for (const CommandData& command : with_help(commands)) {
    const bool whole = command.name.empty();
    const std::string condition =
        whole ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + command.name;
    if (!whole) {
      text += "complete -c skald -n __fish_use_subcommand -a " + command.name + " -d " +
              in_fish_quotes(command.summary()) + "\n";
      text += "complete -c skald -n " + in_fish_quotes(condition);
      if (!command.words.empty()) {
        text += " -a " + in_fish_quotes(joined(command.words));
      } else {
        text += " -F";
      }
      if (takes_model(command)) text += " -a '(skald completion models 2>/dev/null)'";
      text += "\n";
    }
    for (const FlagData& flag : command.flags) text += fish_flag(flag, condition);
  }
  return text;
}

}  // namespace skald
